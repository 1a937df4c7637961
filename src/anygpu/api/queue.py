"""API models for the queue: waiting jobs, running jobs, and the free capacity of machines."""

from pydantic import Field

from anygpu.api.base import JOB_ID, TIME, ApiModel


class QueuedJob(ApiModel):
    """A waiting job. Hours of use are GPU hours, or CPU hours for a job without a GPU."""

    id: str = Field(examples=[JOB_ID])
    name: str = Field(examples=["digits"])
    position: int = Field(examples=[1], description="Counts the jobs of all projects.")
    reason: str = Field(examples=["0 of 8 CPU slots here are free, the job needs 1"])
    priority: int = Field(examples=[0])
    waiting_s: float = Field(examples=[3.2])
    wait_s: float | None = Field(
        examples=[120.0], description="Predicted seconds until it starts; null if unknown."
    )
    band: str = Field(examples=["short"])
    gpu_hours: float = Field(examples=[0.5], description="Used by the job so far.")
    project_gpu_hours: float = Field(examples=[12.0], description="Used by its project recently.")


class RunningJob(ApiModel):
    """A running job."""

    id: str = Field(examples=[JOB_ID])
    name: str = Field(examples=["digits"])
    backend: str | None = Field(examples=["local"])
    phase: str = Field(examples=["training"])
    since: str = Field(examples=[TIME])


class BackendSlot(ApiModel):
    """The free capacity of a machine: how many more jobs could start there now.

    A cloud has one entry for all its offers, which describes the cheapest one.
    """

    backend: str = Field(examples=["local"])
    name: str = Field(examples=["here"])
    free: int | None = Field(examples=[1])
    gpus: int = Field(examples=[0])
    gpu: str = Field(examples=[""])
    cpus: float = Field(examples=[8])
    reason: str = Field(examples=[""])


class UnavailableSlot(ApiModel):
    """A backend that could not list its offers, and why."""

    backend: str = Field(examples=["cloud"])
    name: str = Field(examples=[""])
    free: int = Field(examples=[0])
    reason: str = Field(examples=["no answer"])


class QueueContents(ApiModel):
    """The waiting and running jobs of the project, and the free capacity of the machines that it may use."""

    jobs: list[QueuedJob]
    running: list[RunningJob]
    slots: list[BackendSlot | UnavailableSlot]
