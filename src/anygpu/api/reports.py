"""Output of a job: metrics, events, checkpoints and artifacts."""

from typing import Any

from pydantic import Field

from anygpu.api.base import JOB_ID, TIME, ApiModel

POINTS = [[1, 1767607201.1, 0.9], [2, 1767607202.1, 0.4], [3, 1767607203.1, 0.2]]
HASH = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
URLS = ["http://127.0.0.1:7791/blobs/…"]


class SampledSeries(ApiModel):
    """One metric of an attempt. Values that JSON lacks are the strings "NaN", "Infinity" and "-Infinity"."""

    name: str = Field(examples=["loss"])
    count: int = Field(examples=[3])
    min: float | str = Field(examples=[0.2])
    max: float | str = Field(examples=[0.9])
    last: float | str = Field(examples=[0.2])
    last_step: int = Field(examples=[3])
    points: list[tuple[int, float, float | str]] = Field(
        examples=[POINTS], description="Step, Unix seconds and value of each point."
    )


class JobMetrics(ApiModel):
    """Metrics of one attempt. To follow new points, open a stream at `cursor`."""

    attempt: int = Field(examples=[1])
    cursor: int = Field(examples=[3])
    series: list[SampledSeries]


class JobEvent(ApiModel):
    """An event of the journal. docs/reference/events.md lists the types and their data."""

    position: int = Field(examples=[17])
    job_id: str = Field(examples=[JOB_ID])
    at: str = Field(examples=[TIME])
    type: str = Field(examples=["TrainingStarted"])
    version: int = Field(examples=[1])
    data: dict[str, Any] = Field(examples=[{"attempt": 1}])


class JobEventList(ApiModel):
    """Events in order. To get more, pass `next_after` as `after`."""

    events: list[JobEvent]
    next_after: int = Field(examples=[17])


class DownloadableFile(ApiModel):
    """A file and the signed URLs of its parts, in order."""

    path: str = Field(examples=["ckpt/last.pt"])
    size: int = Field(examples=[1024])
    sha256: str = Field(examples=[HASH])
    urls: list[str] = Field(examples=[URLS])


class CheckpointDetails(ApiModel):
    """A valid checkpoint. `files` is empty if retention has removed them."""

    id: str = Field(examples=["c1"])
    attempt: int = Field(examples=[1])
    step: int = Field(examples=[100])
    size: int = Field(examples=[1024])
    saved_at: str = Field(examples=[TIME])
    files: list[DownloadableFile]


class CheckpointList(ApiModel):
    """Checkpoints of a job, oldest first."""

    checkpoints: list[CheckpointDetails]


class ArtifactDetails(ApiModel):
    """A file that a job produced, and the signed URLs of its parts, in order."""

    name: str = Field(examples=["model.pt"])
    attempt: int = Field(examples=[1])
    size: int = Field(examples=[1024])
    sha256: str = Field(examples=[HASH])
    urls: list[str] = Field(examples=[URLS])


class ArtifactList(ApiModel):
    """Artifacts of a job."""

    artifacts: list[ArtifactDetails]


class StoredBlob(ApiModel):
    """A blob stored through a signed URL."""

    key: str
    size: int
