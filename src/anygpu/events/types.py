"""All events of a job. Events are immutable, and their classes and fields are the journal's format.

A new field needs a default. A changed meaning needs a new `VERSION` and an upcaster in `codec.py`.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from anygpu.events.facts import (
    ArtifactRef,
    BetterPlace,
    CheckpointRef,
    Failure,
    Marks,
    MemoryUse,
    Prediction,
    Usage,
)
from anygpu.events.offers import Handle, Offer
from anygpu.spec.jobspec import JobSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened to a job."""

    VERSION: ClassVar[int] = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSubmitted(Event):
    """The job was accepted. Every accepted job reaches exactly one terminal state."""

    spec: JobSpec
    person: str = ""
    resumed_from: str | None = None
    resume_checkpoint: CheckpointRef | None = None
    resume_checkpoints: tuple[CheckpointRef, ...] = ()  # oldest first; ends with `resume_checkpoint`


@dataclass(frozen=True, slots=True, kw_only=True)
class JobWaited(Event):
    """The job waits for an offer; `reason` says why."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlanned(Event):
    """Offers were compared for the job, or its time and cost were predicted from its first steps."""

    plan: str = ""  # blob key of the comparison; empty when only the prediction is new
    prediction: Prediction | None = None  # for the chosen offer
    code_resumes: bool | None = None  # whether the code resumes from checkpoints; None if not analysed


@dataclass(frozen=True, slots=True, kw_only=True)
class BetterPlaceFound(Event):
    """A better offer for the rest of the job was found, or is gone (`better` is None)."""

    attempt: int
    better: BetterPlace | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptLaunching(Event):
    """The attempt is about to be launched. Written before the provider is called, so that a crash loses no machine.

    All resources of the attempt at the provider get `name`.
    """

    attempt: int
    name: str
    offer: Offer
    ticket_sha256: str
    resume: CheckpointRef | None = None
    # What the same machine costs if it is not interruptible. None: the offer is not, or the price is unknown.
    on_demand_microusd_per_hour: int | None = None
    nodes: int = 1  # how many machines the attempt has


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptLaunched(Event):
    """The provider has accepted the attempt."""

    attempt: int
    handle: Handle


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineStarted(Event):
    """The provider has started to bill the attempt's machine; the time is by the provider's clock."""

    attempt: int
    started_at_ms: int
    price_microusd_per_hour: int | None = None  # None: the price of the offer


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptClaimed(Event):
    """An agent has connected with the attempt's one-time ticket, and now owns the attempt."""

    attempt: int
    claimant: str
    host: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeClaimed(Event):
    """The agent of a further node has connected. Only for attempts on several nodes; node 0 claims the attempt."""

    attempt: int
    node: int
    claimant: str
    host: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReady(Event):
    """A node is prepared. When all nodes of the attempt are, the processes start on all of them."""

    attempt: int
    node: int
    address: str = ""  # at which the other nodes reach it
    port: int = 0  # a free port; that of node 0 is where the processes find each other
    restored: bool | None = None  # whether it has restored the checkpoint to resume from; None: there is none


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEnded(Event):
    """The processes on one node have ended. When all nodes have, the attempt ends. A failure stops the other nodes."""

    attempt: int
    node: int
    outcome: str  # as in AttemptEnded
    exit_code: int | None = None
    signal: int | None = None
    message: str = ""
    step: int | None = None
    memory: MemoryUse | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingStarted(Event):
    """The user's process has started."""

    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingResumed(Event):
    """The script continued from the restored checkpoint: its first reported step shows it."""

    attempt: int
    checkpoint_step: int
    first_step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRestarted(Event):
    """The script started from the beginning although a checkpoint was restored.

    The work lost is the training time that the checkpoint contained.
    """

    attempt: int
    checkpoint_step: int
    first_step: int
    work_lost_s: float
    work_lost_microusd: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSaved(Event):
    """A checkpoint was stored durably."""

    attempt: int
    checkpoint: CheckpointRef


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactSaved(Event):
    """A file that the job produced was stored durably."""

    attempt: int
    artifact: ArtifactRef


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRejected(Event):
    """A stored checkpoint is damaged. The attempt starts from the newest intact one, if there is one."""

    attempt: int
    checkpoint_id: str
    reason: str
    step: int | None = None  # of the damaged checkpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRequested(Event):
    """The attempt was asked to save a checkpoint and stop."""

    attempt: int
    reason: str  # timeout | budget | preempt | migrate | handover | deadline | cheaper
    message: str = ""  # explanation for the user
    makes_room_for: str = ""  # the job that gets its slots, for a preemption by the queue


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRequested(Event):
    """A user has cancelled the job."""

    person: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrateRequested(Event):
    """A user has asked the job to continue at another backend."""

    to: str
    person: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRequested(Event):
    """A user has asked to start the waiting job before the other waiting jobs of its project."""

    person: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEdited(Event):
    """A user changed the name, the tags or the notes of the job. None means unchanged."""

    name: str | None = None  # empty: the job has no name any more
    tags: tuple[str, ...] | None = None
    notes: str | None = None
    person: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnded(Event):
    """The agent has reported how the user's process ended and how much data the attempt stored."""

    attempt: int
    # exited | cancelled | stopped | timeout | failed_to_start | lease_lost | not_restored | results_missing
    outcome: str
    exit_code: int | None = None
    signal: int | None = None
    message: str = ""
    step: int | None = None
    marks: Marks = Marks()
    memory: MemoryUse | None = None  # of a process that failed


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptLost(Event):
    """The attempt counts as lost although its agent has not reported an end; `evidence` is what was observed."""

    attempt: int
    evidence: str
    failure: Failure
    marks: Marks = Marks()


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldStarted(Event):
    """The script failed, and its machine is kept until `until_ms`, so that the user can inspect it.

    The machine still costs money.
    """

    attempt: int
    until_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldEnded(Event):
    """A machine that was kept for inspection after a failure is no longer kept."""

    attempt: int
    reason: str  # time | budget | release | gone
    person: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptQueued(Event):
    """The attempt waits in the queue of its engine, such as Slurm; `reason` is what the engine says."""

    attempt: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptStranded(Event):
    """The attempt's machine can neither be terminated nor checked, because its backend is missing (`reason`)."""

    attempt: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptReleased(Event):
    """The provider confirms that nothing of the attempt is left."""

    attempt: int
    evidence: str = ""
    usage: Usage | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryStarted(Event):
    """The job will be started again after an interruption. The event says how much training was lost, and its cost."""

    attempt: int  # the one that failed
    failure: Failure
    delay_s: float
    work_lost_s: float
    work_lost_microusd: int = 0
    resume: CheckpointRef | None = None
    counts: bool = True  # whether this used up one of the retries
    evidence: str = ""  # what was observed


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCompleted(Event):
    """The job has succeeded; nothing billable is left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFailed(Event):
    """The job has failed; nothing billable is left."""

    failure: Failure


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCancelled(Event):
    """The job was cancelled; nothing billable is left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanEnded(Event):
    """A machine that appeared after its attempt had ended was terminated; `usage` is its cost."""

    attempt: int
    usage: Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class MeterDiffered(Event):
    """The provider says that the attempt cost another amount than the one that anygpu recorded."""

    attempt: int
    ours_microusd: int
    theirs_microusd: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDeleted(Event):
    """A user deleted the job. This event replaces all its other events, and keeps the cost."""

    name: str
    status: str
    cost_microusd: int
    person: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagedEvent(Event):
    """Takes the place of an event in the journal that cannot be read. Never written to the journal."""

    kind: str
    reason: str


TERMINAL = (JobCompleted, JobFailed, JobCancelled)
AFTERWARDS = (OrphanEnded, MeterDiffered, JobEdited, JobDeleted)  # events that may follow the end of a job

EVENTS: tuple[type[Event], ...] = (
    JobSubmitted,
    JobWaited,
    JobPlanned,
    BetterPlaceFound,
    AttemptLaunching,
    AttemptLaunched,
    MachineStarted,
    AttemptClaimed,
    NodeClaimed,
    NodeReady,
    TrainingStarted,
    TrainingResumed,
    TrainingRestarted,
    CheckpointSaved,
    ArtifactSaved,
    CheckpointRejected,
    StopRequested,
    CancelRequested,
    MigrateRequested,
    StartRequested,
    JobEdited,
    NodeEnded,
    AttemptEnded,
    AttemptLost,
    HoldStarted,
    HoldEnded,
    AttemptQueued,
    AttemptStranded,
    AttemptReleased,
    RecoveryStarted,
    JobCompleted,
    JobFailed,
    JobCancelled,
    OrphanEnded,
    MeterDiffered,
    JobDeleted,
)
