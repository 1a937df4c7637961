"""API models for jobs: submit, list, show, resume and migrate them."""

from typing import Any

from pydantic import Field

from anygpu.api.base import JOB_ID, MACHINE, TIME, ApiModel, RequestModel
from anygpu.api.reports import HASH, ArtifactDetails


class SubmittedJob(ApiModel):
    """The answer to a submitted or resumed job. `created` is false if the idempotency key was used before."""

    id: str = Field(examples=[JOB_ID])
    job_id: str = Field(examples=[JOB_ID])
    execution_id: str | None = Field(examples=[None])
    status: str = Field(examples=["queued"])
    phase: str = Field(examples=["planning"])
    position: int | None = Field(examples=[1])
    created: bool = Field(examples=[True])


class JobProgress(ApiModel):
    """Progress as the newest attempt that reported any. Fields that it did not report are null."""

    fraction: float | None = Field(examples=[0.3])
    step: int | float | None = Field(examples=[120])
    steps: int | float | None = Field(examples=[400])
    epoch: int | float | None = Field(examples=[3])
    epochs: int | float | None = Field(examples=[10])
    message: str | None = Field(examples=[""])


class LatestCheckpoint(ApiModel):
    """The newest valid checkpoint of a job."""

    step: int = Field(examples=[100])
    saved_at: str = Field(examples=[TIME])


class ResumeDetails(ApiModel):
    """Whether the newest attempt continued from the checkpoint that it started with.

    `state` is `restored` until a reported step shows whether the script resumed, then `verified` or `restarted`.
    The work lost is the training that a restart from the beginning has to repeat.
    """

    state: str = Field(examples=["verified"])
    checkpoint_step: int = Field(examples=[100])
    first_step: int | None = Field(examples=[101])
    work_lost_s: float = Field(examples=[0.0])
    work_lost_microusd: int = Field(examples=[0])
    message: str = Field(examples=["resumed from the checkpoint of step 100; the first reported step is 101"])


class JobFailure(ApiModel):
    """Why a job failed. `blame` tells who can fix it."""

    code: str
    message: str
    blame: str


class JobPlace(ApiModel):
    """Where the newest attempt of a job runs or ran, and the price of that machine."""

    backend: str = Field(examples=["lambda"])
    name: str = Field(examples=["gpu_1x_a10"], description="Machine type, or name of the machine.")
    region: str = Field(examples=["us-east-1"])
    zone: str = Field(examples=[""])
    gpu: str = Field(examples=["A10"])
    gpus: int = Field(examples=[1])
    interruptible: bool = Field(examples=[False])
    price_microusd_per_hour: int = Field(examples=[750_000], description="0 for a free machine.")


class RemainingWork(ApiModel):
    """The predicted rest of a job that has not ended. In nine of ten cases it is between low and high."""

    seconds: float = Field(examples=[1240.0])
    low_s: float = Field(examples=[900.0])
    high_s: float = Field(examples=[1900.0])
    cost_microusd: int = Field(examples=[210_000])
    cost_low_microusd: int = Field(examples=[150_000])
    cost_high_microusd: int = Field(examples=[320_000])


class MainMetricDetails(ApiModel):
    """The metric of a job that a person would look at first, and its curve in a few points."""

    name: str = Field(examples=["val/accuracy"])
    value: float | str = Field(examples=[0.91], description="The newest value.")
    step: int = Field(examples=[1200])
    spark: list[float] = Field(
        examples=[[0.42, 0.77, 0.91]], description="At most 32 values, evenly spaced, oldest first."
    )


class JobSummary(ApiModel):
    """One job in a list."""

    id: str = Field(examples=[JOB_ID])
    name: str = Field(examples=["digits"])
    status: str = Field(examples=["running"])
    phase: str = Field(examples=["training"])
    reason: str = Field(examples=[""], description="Why the job waits.")
    submitted_at: str = Field(examples=[TIME])
    started_at: str | None = Field(examples=[TIME], description="When the first attempt was launched.")
    updated_at: str = Field(examples=[TIME])
    ended_at: str | None = Field(examples=[None])
    person: str = Field(examples=["me"])
    tags: list[str] = Field(examples=[["demo"]])
    notes: str = Field(examples=[""])
    backend: str | None = Field(examples=["local"])
    place: JobPlace | None = Field(description="Null before the first attempt.")
    execution_id: str | None = Field(examples=[MACHINE])
    progress: JobProgress
    attempt: int = Field(examples=[1], description="Number of the newest attempt; 0 before the first.")
    checkpoint: LatestCheckpoint | None
    artifacts: int = Field(examples=[0])
    work_lost_s: float = Field(examples=[0.0])
    work_lost_microusd: int = Field(examples=[0], description="What the lost work cost.")
    resume: ResumeDetails | None = Field(examples=[None])
    cost_microusd: int = Field(examples=[0])
    max_cost_microusd: int | None = Field(examples=[None], description="The budget of the job.")
    deadline_at: str | None = Field(examples=[None])
    remaining: RemainingWork | None = Field(
        description="From the newest prediction; null without one, and after the end."
    )
    main_metric: MainMetricDetails | None
    attempt_marks: list[float] = Field(
        examples=[[]], description="Fractions of the work at which the job continued on another machine."
    )
    interruptions: int = Field(
        examples=[0], description="How often a machine was taken away or lost during training."
    )
    retries_used: int = Field(examples=[0])
    resumed_from: str | None = Field(examples=[None])
    cancel_requested: bool = Field(examples=[False])
    start_requested: bool = Field(
        examples=[False], description="A user asked to start the job before others of its project."
    )
    failure: JobFailure | None = Field(examples=[None])
    queue_position: int | None = Field(examples=[None])
    damaged: str | None = Field(
        default=None,
        examples=[None],
        description="Why the events of the job cannot be read. The other fields then have what is still known.",
    )


class JobList(ApiModel):
    """A page of jobs, newest first. `next_cursor` requests the next page."""

    jobs: list[JobSummary]
    next_cursor: str | None = Field(examples=[None])


class CheckpointTime(ApiModel):
    """When an attempt saved a checkpoint."""

    step: int = Field(examples=[100])
    saved_at: str = Field(examples=[TIME])


class NodeDetails(ApiModel):
    """One machine of an attempt that runs on several."""

    node: int = Field(examples=[0])
    host: str = Field(examples=["gpu-01"], description="Host name; empty until its agent connects.")
    state: str = Field(examples=["ready"], description="starting, preparing, ready or ended.")
    outcome: str | None = Field(examples=[None])
    exit_code: int | None = Field(examples=[None])
    signal: int | None = Field(examples=[None])
    message: str = Field(examples=[""])


class AttemptDetails(ApiModel):
    """One attempt to run a job, on one machine or on several."""

    number: int = Field(examples=[1])
    name: str = Field(examples=[MACHINE])
    backend: str = Field(examples=["local"])
    offer: str = Field(examples=["here"], description="Machine type, or name of the machine.")
    region: str = Field(examples=[""])
    zone: str = Field(examples=[""])
    gpu: str = Field(examples=["A10"])
    gpus: int = Field(examples=[1])
    own: bool = Field(examples=[False], description="A machine of the organisation, not a rented one.")
    interruptible: bool = Field(examples=[False])
    price_microusd_per_hour: int = Field(examples=[0], description="Price of all its machines.")
    cost_microusd: int = Field(examples=[0])
    metered_microusd: int | None = Field(examples=[None])
    phase: str = Field(examples=["training"])
    outcome: str | None = Field(examples=[None])
    exit_code: int | None = Field(examples=[None])
    signal: int | None = Field(examples=[None])
    message: str = Field(examples=[""])
    launching_at: str = Field(examples=[TIME])
    started_at: str | None = Field(
        examples=[None], description="Start of billing, by the provider's clock; null if unknown."
    )
    training_at: str | None = Field(examples=[TIME])
    ended_at: str | None = Field(examples=[None])
    released_at: str | None = Field(examples=[None], description="Nothing of the attempt is left since then.")
    held_until: str | None = Field(
        examples=[None], description="Its machine is held for inspection until then; null if it is not held."
    )
    end_kind: str | None = Field(
        examples=[None],
        description="completed, cancelled, failed, interrupted, lost, migrated, stopped or not_started;"
        " null while the attempt runs.",
    )
    end_text: str = Field(examples=[""], description="Why the attempt ended, in words.")
    notice: bool | None = Field(
        examples=[None], description="Whether an interrupted machine announced it; null if not interrupted."
    )
    work_lost_s: float = Field(
        examples=[0.0],
        description="Training after its last checkpoint, which the next attempt has to repeat.",
    )
    work_lost_microusd: int = Field(examples=[0])
    restart_lost_s: float = Field(
        examples=[0.0],
        description="Training of earlier attempts that was lost because the script started from the beginning.",
    )
    restart_lost_microusd: int = Field(examples=[0])
    checkpoints_saved: int = Field(examples=[1])
    checkpoints: list[CheckpointTime] = Field(
        description="Times of saved checkpoints: at most 33, evenly chosen, with the newest."
    )
    resume_step: int | None = Field(examples=[None])
    resume_state: str | None = Field(
        examples=[None], description="restored, verified or restarted; null without a checkpoint."
    )
    nodes: list[NodeDetails] = Field(
        default=[], description="The machines of an attempt on several machines; empty for one machine."
    )
    processes_per_node: int = Field(default=1, examples=[1], description="Ranks on each machine.")


class JobPrediction(ApiModel):
    """Predicted time and cost of a whole job. In nine of ten cases the result is between low and high."""

    wall_s: float = Field(examples=[8040.0])
    wall_low_s: float = Field(examples=[5200.0])
    wall_high_s: float = Field(examples=[12_100.0])
    cost_microusd: int = Field(examples=[1_340_000])
    cost_low_microusd: int = Field(examples=[870_000])
    cost_high_microusd: int = Field(examples=[2_020_000])
    basis: str = Field(examples=["history"])
    confidence: str = Field(examples=["medium"])


class BetterOfferLocation(ApiModel):
    """Backend, region and machine of the better offer that a running job could migrate to."""

    backend: str = Field(examples=["lambda"])
    name: str = Field(examples=["gpu_1x_a10"])
    region: str = Field(examples=["us-east-1"])
    zone: str = Field(examples=[""])
    gpu_kind: str = Field(examples=["A10"])
    gpu_count: int = Field(examples=[1])
    interruptible: bool = Field(examples=[False])
    price_microusd_per_hour: int = Field(examples=[750_000])


class BetterOffer(ApiModel):
    """A better offer for the rest of a running job, and what a migration to it saves."""

    place: BetterOfferLocation
    saves_microusd: int = Field(examples=[3_100_000])
    saves_low_microusd: int = Field(examples=[1_900_000])
    sooner_s: float = Field(examples=[-1200.0], description="Negative: the job ends later.")
    sooner_low_s: float = Field(examples=[-4100.0])
    by_itself: bool = Field(examples=[False], description="The job migrates after its next checkpoint.")


class CodeIdentity(ApiModel):
    """The code that a job runs.

    `kind` is `snapshot` or `archive` (uploaded files), `inline` (the text in the spec), `in_place` (a directory of
    the server's machine) or `none`.
    """

    kind: str = Field(examples=["snapshot"])
    sha256: str | None = Field(examples=[HASH], description="Null for code that is not stored.")
    path: str | None = Field(examples=["/home/me/project"])


class DataIdentity(ApiModel):
    """The dataset of a job: a path, a URL, or a name and a version."""

    kind: str = Field(examples=["path"])
    source: str = Field(examples=["data/train"])
    sha256: str | None = Field(
        examples=[HASH],
        description="Of the uploaded archive; if it has several parts, of the list of their hashes."
        " Null if it is not uploaded.",
    )
    parts: int = Field(examples=[1])


class JobDetails(JobSummary):
    """Everything about one job."""

    metrics: dict[str, float | str] = Field(
        examples=[{"loss": 0.25}], description="Last value of each metric."
    )
    attempts: list[AttemptDetails]
    telemetry: dict[str, Any] = Field(examples=[{}])
    predicted: JobPrediction | None = Field(examples=[None], description="Predicted before the job ran.")
    prediction: JobPrediction | None = Field(description="Newest prediction.")
    estimated_remaining: RemainingWork | None = Field(
        description="From the newest prediction; null without one, and after the end."
    )
    recent_logs: list[str] = Field(
        examples=[["epoch 1 loss 0.3"]], description="Last lines of the newest attempt's output."
    )
    queue_wait_s: float | None = Field(
        examples=[None], description="Predicted seconds until a waiting job starts; null if unknown."
    )
    better: BetterOffer | None
    code: CodeIdentity
    data: DataIdentity | None
    spec: dict[str, Any] = Field(
        examples=[{"script": "train.py", "args": ["--epochs", "3"], "name": "digits"}]
    )


class JobCountList(ApiModel):
    """The number of jobs that match some filters, by status."""

    all: int = Field(examples=[7])
    active: int = Field(examples=[3], description="Queued and running.")
    queued: int = Field(examples=[1])
    running: int = Field(examples=[2])
    completed: int = Field(examples=[2])
    failed: int = Field(examples=[1])
    cancelled: int = Field(examples=[1])
    exact: bool = Field(
        examples=[True], description="False: more jobs have ended than were counted (10,000)."
    )


class ProjectSummary(ApiModel):
    """What a project does and spends now."""

    project: str = Field(examples=["default"])
    active: int = Field(examples=[3], description="Queued and running jobs.")
    queued: int = Field(examples=[1])
    hourly_microusd: int = Field(examples=[750_000], description="Price of the machines that are rented now.")
    machines: int = Field(
        examples=[1], description="Machines that the project uses, besides that of the server."
    )
    machines_without_job: int | None = Field(
        examples=[None],
        description="At all backends, as last listed; null for callers who are not operators.",
    )
    today_microusd: int = Field(examples=[31_480_000], description="Cost of today, in the given time zone.")
    month_microusd: int = Field(examples=[412_060_000], description="Cost of this month until now.")


class JobEdit(RequestModel):
    """Changes of a job. What is left out stays as it is."""

    name: str | None = Field(default=None, max_length=200, examples=["digits"], description="Empty: no name.")
    tags: list[str] | None = Field(default=None, max_length=200, examples=[["night"]])
    add_tags: list[str] = Field(default_factory=list, max_length=200, examples=[["best"]])
    remove_tags: list[str] = Field(default_factory=list, max_length=200, examples=[[]])
    notes: str | None = Field(default=None, max_length=10_000, examples=["Larger batch, same result."])


class MigrationRequest(RequestModel):
    """The backend on which a job should continue."""

    to: str = Field(max_length=200, examples=["lambda"])


class CompatProgress(ApiModel):
    """The progress of a job, in the format of `/orchestrate` and `/status`."""

    epoch: int | float = Field(examples=[5])
    total_epochs: Any = Field(examples=[10])
    progress_percent: int = Field(examples=[50])
    message: str = Field(examples=["Training epoch 5/10"])
    progress: float = Field(examples=[0.5], description="The completed fraction.")
    metrics: dict[str, float | str] = Field(examples=[{"loss": 0.234}])
    status: str = Field(examples=["training"], description="The phase of the task, or how it ended.")


class TrainingSession(ApiModel):
    """A job in the format of `/models/{model}/train` and `/training-sessions/{id}`."""

    id: str = Field(examples=[JOB_ID])
    model: str = Field(examples=["tabular"])
    status: str = Field(examples=["running"])
    created_at: str = Field(examples=[TIME])
    compute_profile_id: str | None = Field(examples=["local"], description="The backend.")
    progress: CompatProgress
    metrics: dict[str, float | str] = Field(examples=[{"loss": 0.234}])
    error: str | None = Field(examples=[None])
    artifacts: list[ArtifactDetails]


class CompatTask(ApiModel):
    """A job in the format of `/orchestrate` and `/status`."""

    task_id: str = Field(examples=[JOB_ID])
    status: str = Field(examples=["running"])
    created_at: str = Field(examples=[TIME])
    progress: CompatProgress
    error: str | None = Field(
        examples=[None], description="Why the task failed, and the last lines of its output."
    )
    logs: list[str] = Field(examples=[["epoch 5 loss 0.234"]], description="Last lines of the output.")
