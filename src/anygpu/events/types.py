"""Every fact about a job: past tense, frozen, appended once, never changed.

A new field gets a default; a changed meaning gets a new `VERSION` and an upcaster in `codec.py`.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from anygpu.events.facts import ArtifactRef, BetterPlace, CheckpointRef, Failure, Marks, Prediction, Usage
from anygpu.events.offers import Handle, Offer
from anygpu.spec.jobspec import JobSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A fact about a job."""

    VERSION: ClassVar[int] = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSubmitted(Event):
    """Somebody asked for this job; it is accepted and will reach exactly one terminal state."""

    spec: JobSpec
    person: str = ""
    resumed_from: str | None = None
    resume_checkpoint: CheckpointRef | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobWaited(Event):
    """No place could take the job; `reason` says what it waits for."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlanned(Event):
    """The places the job could run were compared, or its first steps told how long it takes."""

    plan: str = ""  # blob key of the comparison; empty when only the prediction is new
    prediction: Prediction | None = None  # of the place that was chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class BetterPlaceFound(Event):
    """What is left of the job is better done elsewhere; without a place: no longer."""

    attempt: int
    better: BetterPlace | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptLaunching(Event):
    """The intent, written before the provider is called. Every resource carries `name`."""

    attempt: int
    name: str
    offer: Offer
    ticket_sha256: str
    resume: CheckpointRef | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptLaunched(Event):
    """The provider has accepted the attempt."""

    attempt: int
    handle: Handle


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineStarted(Event):
    """The provider has begun to bill the attempt's machine, by its own clock and at this price."""

    attempt: int
    started_at_ms: int
    price_microusd_per_hour: int | None = None  # None: the offer's


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptClaimed(Event):
    """The first agent redeemed the attempt's one-time ticket and owns it."""

    attempt: int
    claimant: str
    host: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingStarted(Event):
    """The user's process runs."""

    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSaved(Event):
    """Training state is durable up to `checkpoint.step`."""

    attempt: int
    checkpoint: CheckpointRef


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactSaved(Event):
    """A file the job produced is durable."""

    attempt: int
    artifact: ArtifactRef


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRejected(Event):
    """A published checkpoint could not be read back; the one before it is used."""

    attempt: int
    checkpoint_id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRequested(Event):
    """The attempt shall checkpoint and stop."""

    attempt: int
    reason: str  # timeout | budget | preempt | migrate | handover | deadline | cheaper
    message: str = ""  # in words, for the person whose job it is
    makes_room_for: str = ""  # the job that gets its slots, when the queue asks for it


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRequested(Event):
    """Somebody no longer wants the job."""

    person: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrateRequested(Event):
    """Somebody wants the job to go on at another backend."""

    to: str
    person: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnded(Event):
    """The agent's last word: how the user's process ended, and how much was stored."""

    attempt: int
    outcome: str  # exited | cancelled | stopped | timeout | failed_to_start | lease_lost
    exit_code: int | None = None
    signal: int | None = None
    message: str = ""
    step: int | None = None
    marks: Marks = Marks()


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptLost(Event):
    """The attempt is over without its agent's word; `evidence` is what was observed."""

    attempt: int
    evidence: str
    failure: Failure
    marks: Marks = Marks()


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldStarted(Event):
    """The script failed, and its machine is kept for a look at it until `until_ms`. It goes on costing."""

    attempt: int
    until_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldEnded(Event):
    """The kept machine is no longer wanted."""

    attempt: int
    reason: str  # time | budget | release | gone
    person: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptStranded(Event):
    """Nobody can end the attempt's machine or say whether it is gone; `reason` says what is missing."""

    attempt: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptReleased(Event):
    """The provider says nothing of this attempt is left."""

    attempt: int
    evidence: str = ""
    usage: Usage | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryStarted(Event):
    """The job will be tried again, and this is what the interruption cost."""

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
    """The job did what was asked; nothing billable is left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFailed(Event):
    """The job ended without its result; nothing billable is left."""

    failure: Failure


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCancelled(Event):
    """The job ended because somebody asked; nothing billable is left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanEnded(Event):
    """A machine of an attempt that was over turned up late, and was ended; this is what it cost."""

    attempt: int
    usage: Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class MeterDiffered(Event):
    """The provider charges another amount for the attempt than the ledger says."""

    attempt: int
    ours_microusd: int
    theirs_microusd: int


TERMINAL = (JobCompleted, JobFailed, JobCancelled)
AFTERWARDS = (OrphanEnded, MeterDiffered)  # what may become known of a job after its end

EVENTS: tuple[type[Event], ...] = (
    JobSubmitted,
    JobWaited,
    JobPlanned,
    BetterPlaceFound,
    AttemptLaunching,
    AttemptLaunched,
    MachineStarted,
    AttemptClaimed,
    TrainingStarted,
    CheckpointSaved,
    ArtifactSaved,
    CheckpointRejected,
    StopRequested,
    CancelRequested,
    MigrateRequested,
    AttemptEnded,
    AttemptLost,
    HoldStarted,
    HoldEnded,
    AttemptStranded,
    AttemptReleased,
    RecoveryStarted,
    JobCompleted,
    JobFailed,
    JobCancelled,
    OrphanEnded,
    MeterDiffered,
)
