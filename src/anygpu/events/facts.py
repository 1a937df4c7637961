"""The small values events and views are made of."""

from dataclasses import dataclass
from enum import StrEnum

from anygpu.events.offers import Offer

FIRST_STEPS = "first steps"  # what a prediction of a job that runs rests on


class Status(StrEnum):
    """What everyone is told about a job."""

    QUEUED = "queued"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_terminal(self) -> bool:
        return self in (Status.COMPLETED, Status.FAILED, Status.CANCELLED)


class Phase(StrEnum):
    """What exactly is going on."""

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
    """Whose turn it is after a failed attempt; decides whether trying again can help."""

    USER = "user"  # the script's own error: never retried
    LAUNCH = "launch"  # the place did not start it
    INFRASTRUCTURE = "infrastructure"  # the machine or the agent died
    PREEMPTION = "preemption"  # the machine was taken back
    PLATFORM = "platform"  # stopped by us: timeout, budget


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What the provider will charge for an attempt: an interval by its clock, and its price by its rule."""

    started_at_ms: int
    ended_at_ms: int
    cost_microusd: int
    source: str = "provider"  # provider | observed: whose clock the interval is by


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """Of a whole job, from its first launch to its end: what is expected, and where it lies nine times in ten."""

    wall_s: float
    wall_low_s: float
    wall_high_s: float
    cost_microusd: int
    cost_low_microusd: int
    cost_high_microusd: int
    basis: str = "nothing"  # said | history | code | first steps | nothing: what it rests on
    confidence: str = "low"  # low | medium | high


@dataclass(frozen=True, slots=True, kw_only=True)
class BetterPlace:
    """Where what is left of a running job is better done, the move included: what is expected, and with bad luck."""

    offer: Offer
    saves_microusd: int  # negative: it costs more
    saves_low_microusd: int
    sooner_s: float  # negative: it is done later
    sooner_low_s: float
    by_itself: bool = False  # it goes there after its next checkpoint, without being asked to


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRef:
    """A published checkpoint."""

    id: str
    attempt: int
    step: int
    manifest: str  # blob key
    size: int
    saved_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactRef:
    """A file the job produced."""

    name: str
    attempt: int
    key: str  # blob key of its manifest
    size: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why something ended badly, for the person who must act."""

    code: str
    message: str
    blame: Blame


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """How much an attempt has stored; a stream closes only after delivering up to here."""

    log_bytes: int = 0
    metric_points: int = 0
