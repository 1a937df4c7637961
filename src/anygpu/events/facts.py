"""Value types of which events and the states (views) of jobs consist. Their fields are part of the journal's format."""

from dataclasses import dataclass
from enum import StrEnum

from anygpu.events.offers import Offer

FIRST_STEPS = "first steps"  # the basis of predictions from a running job's own steps
PLANNED_STOPS = frozenset({"migrate", "handover", "deadline", "cheaper"})  # stops after which the job moves


class Status(StrEnum):
    """The status of a job."""

    QUEUED = "queued"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_terminal(self) -> bool:
        return self in (Status.COMPLETED, Status.FAILED, Status.CANCELLED)


class Phase(StrEnum):
    """What a job is doing now, in more detail than its status: planning, preparing, training, …"""

    PLANNING = "planning"
    WAITING = "waiting"
    PROVISIONING = "provisioning"
    PREPARING = "preparing"
    TRAINING = "training"
    CHECKPOINTING = "checkpointing"
    RECOVERING = "recovering"
    FINISHING = "finishing"
    HELD = "held"
    ENDED = "ended"


class Blame(StrEnum):
    """The cause of a failed attempt. The cause decides whether the job is retried."""

    USER = "user"  # an error of the script: never retried
    LAUNCH = "launch"  # the backend did not start the machine
    INFRASTRUCTURE = "infrastructure"  # the machine or the agent failed
    PREEMPTION = "preemption"  # the provider took the machine back
    PLATFORM = "platform"  # stopped by anygpu: timeout, budget


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The time for which a provider charges an attempt, and the cost."""

    started_at_ms: int
    ended_at_ms: int
    cost_microusd: int
    source: str = "provider"  # provider | observed: whose clock measured the interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """Predicted time and cost of a whole job, from first launch to end: expected value and 90 % range."""

    wall_s: float
    wall_low_s: float
    wall_high_s: float
    cost_microusd: int
    cost_low_microusd: int
    cost_high_microusd: int
    basis: str = "nothing"  # said | history | code | first steps | nothing
    confidence: str = "low"  # low | medium | high


@dataclass(frozen=True, slots=True, kw_only=True)
class BetterPlace:
    """A better offer for the rest of a running job.

    It has the expected gains of a migration to this offer, and the gains in a bad case.
    """

    offer: Offer
    saves_microusd: int  # negative if moving costs more
    saves_low_microusd: int
    sooner_s: float  # negative if the job then finishes later
    sooner_low_s: float
    by_itself: bool = False  # whether the job migrates by itself after its next checkpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRef:
    """Reference to a published checkpoint."""

    id: str
    attempt: int
    step: int
    manifest: str  # blob key
    size: int
    saved_at_ms: int
    unit: str = ""  # what `step` counts: step | epoch | count (of a progress bar); empty if unknown
    epoch: int | None = None  # completed epochs, if the script reports them


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointMark:
    """When a checkpoint was saved. Unlike a `CheckpointRef` it stays after the checkpoint is deleted."""

    step: int
    saved_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactRef:
    """Reference to a file that the job produced."""

    name: str
    attempt: int
    key: str  # blob key of its manifest
    size: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryUse:
    """The memory that a failed job used, as its agent measured it. None: not known."""

    peak_bytes: int | None = None
    limit_bytes: int | None = None  # of the cgroup, the user or the machine, whichever is lowest
    machine_bytes: int | None = None  # all memory of the machine
    oom_killed: bool | None = None  # whether the kernel killed a process of the job for lack of memory


KILL_SIGNALS = (9, 15)  # SIGKILL and SIGTERM, which usually come from outside the job
SIGNAL_EXIT_CODES = 128  # a shell and torchrun report a signal as 128 plus its number


def is_killed(exit_code: int | None, signal: int | None) -> bool:
    """Return whether a process was killed, rather than failed or crashed by itself."""
    return signal in KILL_SIGNALS or (exit_code or 0) - SIGNAL_EXIT_CODES in KILL_SIGNALS


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The reason why an attempt or job failed, for the user."""

    code: str
    message: str
    blame: Blame


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """How many log bytes and metric points an attempt has stored in total.

    A client that follows the attempt receives all of them before its stream ends.
    """

    log_bytes: int = 0
    metric_points: int = 0
