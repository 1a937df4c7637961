"""The small values events and views are made of."""

from dataclasses import dataclass, field
from enum import StrEnum
from math import inf
from typing import Any

Json = dict[str, Any]
MICROUSD = 1_000_000
HOUR_S = 3600
FIRST_STEPS = "first steps"  # what a prediction of a job that runs rests on


class Status(StrEnum):
    """What everyone is told about a job."""

    QUEUED = "queued"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def terminal(self) -> bool:
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
class Billing:
    """How a provider counts time: in steps of `step_s`, at least `minimum_s`."""

    step_s: int = 1
    minimum_s: int = 0

    def billed_s(self, used_s: int) -> int:
        """Whole seconds that are charged for a machine that was there for `used_s`."""
        steps = -(-max(0, used_s) // self.step_s)
        return max(self.minimum_s, steps * self.step_s)

    def cost_microusd(self, price_microusd_per_hour: int, used_s: int) -> int:
        """To the nearest micro-dollar, half up."""
        return (price_microusd_per_hour * self.billed_s(used_s) + HOUR_S // 2) // HOUR_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A priced place a job could run."""

    backend: str
    name: str = ""  # the instance type, or the name of the box
    region: str = ""
    zone: str = ""
    gpu_kind: str = ""
    gpu_count: int = 0
    gpu_memory_gib: float = 0
    cpus: float = 0
    memory_gib: float = 0
    disk_gib: float = 0
    interruptible: bool = False
    price_microusd_per_hour: int = 0
    free: int | None = None  # how many such attempts can start now; None when nobody knows
    wait_reason: str = ""
    expected_wait_s: float = 0
    max_run_s: float | None = None
    containers: bool = False  # whether it can run a job's image
    self_expires: str = "none"  # halt | max_duration | none: how its machine dies without us
    billing: Billing = Billing()
    lease_s: float = 0  # how long its agent may be out of reach before it stops; 0: the server's default
    refused: str = ""  # why its own configuration does not allow it: a limit, a missing consent
    driver: str = ""  # the version of its GPUs' driver, where the machine says it

    @property
    def paid(self) -> bool:
        return self.price_microusd_per_hour > 0

    @property
    def longest_s(self) -> float:
        """Of one run; endless where nobody ends it."""
        return inf if self.max_run_s is None else self.max_run_s

    @property
    def place(self) -> "Place":
        """What is full, refuses or is taken back as one."""
        return self.backend, self.region, self.zone, self.name, self.interruptible


Place = tuple[str, str, str, str, bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Handle:
    """What the provider calls the attempt. A handle with only a name must be enough to find it."""

    name: str
    native: Json = field(default_factory=dict)


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
