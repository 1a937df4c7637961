"""API models for the server itself: health, telemetry, removal of old data, and errors."""

from typing import Any

from pydantic import Field

from anygpu.api.base import JOB_ID, ApiModel

GPU = {"index": 0, "uuid": "GPU-…", "name": "L4", "use": 0.9, "memory_used": 9 * 2**30, "power_w": 70.0}


class Health(ApiModel):
    """The answer of a server process that runs, whether or not it can serve requests."""

    ok: bool = Field(examples=[True])


class Readiness(ApiModel):
    """The answer of a server that can serve requests, with warnings about what an operator should repair."""

    ok: bool = Field(examples=[True])
    version: str = Field(examples=["0.1.0"])
    warnings: list[str] = Field(
        default_factory=list,
        examples=[
            ["1 job is damaged and not managed. Restore the database from a backup, or delete the job."]
        ],
        description="What an operator should repair: one sentence each, followed by what to do.",
    )


class NewestAttemptTelemetry(ApiModel):
    """The newest telemetry of a running attempt."""

    job_id: str = Field(examples=[JOB_ID])
    attempt: int = Field(examples=[1])
    telemetry: dict[str, Any] = Field(examples=[{"gpus": [GPU]}])


class TelemetrySamples(ApiModel):
    """The newest telemetry of the server's host and of the project's running attempts."""

    host: dict[str, Any] = Field(examples=[{"gpus": [GPU]}])
    attempts: list[NewestAttemptTelemetry]


class RetentionReport(ApiModel):
    """What the removal of old data has removed or, with `dry_run`, would remove."""

    dry_run: bool = Field(examples=[True])
    jobs: int = Field(examples=[3])
    attempts: int = Field(examples=[4])
    log_bytes: int = Field(examples=[52_000])
    metric_points: int = Field(examples=[1200])
    files: int = Field(
        examples=[5], description="Files that were moved to the trash, or unfinished ones deleted."
    )
    bytes: int = Field(examples=[1_048_576])
    restored_files: int = Field(
        default=0,
        examples=[0],
        description="Files that were moved back from the trash: a job needs them again.",
    )
    purged_files: int = Field(default=0, examples=[2], description="Files that were deleted from the trash.")
    purged_bytes: int = Field(default=0, examples=[4096])
    refused: str | None = Field(
        default=None, examples=[None], description="Why no files were removed, if so."
    )


class ProblemDetails(ApiModel):
    """An error (RFC 9457). `code` never changes; `hint` says what to do. Some errors have additional fields."""

    type: str = Field(examples=["about:blank"])
    title: str = Field(examples=["Not found"])
    status: int = Field(examples=[404])
    code: str = Field(examples=["not_found"])
    detail: str = Field(examples=["there is no job 'resnet'"])
    hint: str = Field(default="", examples=["`anygpu ls` shows the jobs of this project."])
    retryable: bool = Field(examples=[False])
    problems: list[dict[str, Any]] = Field(default_factory=list, examples=[[]])
