"""API models for the output of a job: metrics, events, checkpoints and artifacts."""

from typing import Any

from pydantic import Field

from anygpu.api.base import JOB_ID, TIME, ApiModel

POINTS = [[1, 1767607201.1, 0.9], [2, 1767607202.1, 0.4], [3, 1767607203.1, 0.2]]
HASH = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
URLS = ["http://127.0.0.1:7791/blobs/…"]


class SampledSeries(ApiModel):
    """The points of one metric of an attempt, reduced to the requested number.

    Values that JSON lacks are the strings "NaN", "Infinity" and "-Infinity".
    """

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
    total: int | None = Field(
        examples=[None], description="Number of events of the job; only in answers to `before`."
    )


PREVIEW = "How a browser can show the file with `?preview=1`: image, table or text; null if it cannot."
DOWNLOAD = "Path on this server to download the whole file, with the caller's token or session."


class DownloadableFile(ApiModel):
    """A file and the signed URLs of its parts, in order."""

    path: str = Field(examples=["ckpt/last.pt"])
    size: int = Field(examples=[1024])
    sha256: str = Field(examples=[HASH])
    urls: list[str] = Field(examples=[URLS])
    download: str = Field(
        examples=["/api/v1/training/last/checkpoints/c1/files/ckpt/last.pt"], description=DOWNLOAD
    )
    preview: str | None = Field(examples=[None], description=PREVIEW)


class CheckpointDetails(ApiModel):
    """A valid checkpoint. `files` is empty if they cannot be read; `problem` then says why."""

    id: str = Field(examples=["c1"])
    attempt: int = Field(examples=[1])
    step: int = Field(examples=[100])
    size: int = Field(examples=[1024])
    saved_at: str = Field(examples=[TIME])
    epoch: int | None = Field(examples=[1], description="Completed epochs, if the script reports them.")
    unit: str = Field(
        examples=["step"], description="What `step` counts: step, epoch or count; empty if unknown."
    )
    newest: bool = Field(examples=[True], description="The job resumes from this one, if it has to.")
    inherited: bool = Field(
        examples=[False], description="Saved by the job that this one continues, not by this job."
    )
    resumed_attempts: list[int] = Field(
        examples=[[]], description="Attempts of this job that started from this checkpoint."
    )
    problem: str | None = Field(examples=[None])
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
    urls: list[str] = Field(examples=[URLS], description="Empty if the file cannot be read.")
    download: str = Field(examples=["/api/v1/training/last/artifacts/model.pt"], description=DOWNLOAD)
    preview: str | None = Field(examples=[None], description=PREVIEW)
    problem: str | None = Field(examples=[None], description="Why the file cannot be read; null if it can.")


class ArtifactList(ApiModel):
    """Artifacts of a job."""

    artifacts: list[ArtifactDetails]


class CodeFile(ApiModel):
    """A file of the code of a job. A symbolic link has a target (`link`) instead of content."""

    path: str = Field(examples=["train.py"])
    size: int = Field(examples=[1024])
    sha256: str | None = Field(examples=[HASH])
    link: str | None = Field(examples=[None])


class CodeFileList(ApiModel):
    """Files of the snapshot that a job runs, in order. Empty if its code was not uploaded as a snapshot."""

    sha256: str | None = Field(examples=[HASH], description="Of the list of files, as in the spec.")
    count: int = Field(examples=[1])
    size: int = Field(examples=[1024], description="Of all files together.")
    files: list[CodeFile] = Field(description="At most `limit` of them.")


class StoredBlob(ApiModel):
    """The answer to an upload through a signed URL: the stored blob (file)."""

    key: str
    size: int
