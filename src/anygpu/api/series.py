"""API models for charts: metrics of all attempts of a job, and the telemetry of its machines."""

from pydantic import Field

from anygpu.api.base import ApiModel

STEPS = [1, 2, 3]
TIMES = [1767607201.1, 1767607202.1, 1767607203.1]
VALUES = [0.9, 0.4, 0.2]


class MetricSummary(ApiModel):
    """One metric of a job over all its attempts.

    Values that JSON lacks are the strings "NaN", "Infinity" and "-Infinity".
    """

    name: str = Field(examples=["train/loss"])
    count: int = Field(examples=[3])
    min: float | str = Field(examples=[0.2])
    max: float | str = Field(examples=[0.9])
    last: float | str = Field(
        examples=[0.2], description="Last value of the newest attempt that has the metric."
    )
    last_step: int = Field(examples=[3])
    attempts: list[int] = Field(examples=[[1, 2]], description="The attempts that have the metric.")


class MetricsOverview(ApiModel):
    """All metrics of a job without their points. To follow new points, open a stream at `attempt` and `cursor`."""

    attempt: int = Field(examples=[2], description="Number of the newest attempt; 0 before the first.")
    cursor: int = Field(examples=[40], description="Number of stored points of the newest attempt.")
    metrics: list[MetricSummary]


class MetricColumns(ApiModel):
    """Points of one metric of one attempt, in three lists of equal length."""

    name: str = Field(examples=["train/loss"])
    count: int = Field(
        examples=[3], description="Number of points that the attempt has, also outside the range."
    )
    steps: list[int] = Field(examples=[STEPS])
    times: list[float] = Field(examples=[TIMES], description="Unix seconds.")
    values: list[float | str] = Field(examples=[VALUES])


class AttemptMetrics(ApiModel):
    """Points of the requested metrics in one attempt."""

    attempt: int = Field(examples=[1])
    cursor: int = Field(
        examples=[40], description="Number of stored points of all metrics when these were read."
    )
    series: list[MetricColumns]


class MetricsHistory(ApiModel):
    """Points of the requested metrics in every attempt that has them, oldest attempt first."""

    attempts: list[AttemptMetrics]


class TelemetrySeries(ApiModel):
    """One measured value of a machine over time."""

    name: str = Field(examples=["gpu0.utilisation"])
    label: str = Field(examples=["NVIDIA A10"], description="Name of the GPU; empty for other devices.")
    unit: str = Field(examples=["fraction"], description="fraction, bytes, bytes_per_s, celsius or watts.")
    limit: float | None = Field(examples=[None], description="Size of the memory or disk; null without one.")
    points: list[tuple[float, float]] = Field(
        examples=[[[1767607201.1, 0.97], [1767607211.1, 0.98]]], description="Unix seconds and value."
    )


class AttemptTelemetry(ApiModel):
    """Telemetry of the machine of one attempt."""

    attempt: int = Field(examples=[1])
    series: list[TelemetrySeries]


class TelemetryHistory(ApiModel):
    """Stored telemetry of a job, oldest attempt first."""

    attempts: list[AttemptTelemetry]
