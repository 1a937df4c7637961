"""Offers of machines, how they are billed, and the handles of what was launched on them."""

from dataclasses import dataclass, field
from math import inf
from typing import Any

Json = dict[str, Any]
MICROUSD = 1_000_000
HOUR_S = 3600


OfferKey = tuple[str, str, str, str, bool]


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
    def is_paid(self) -> bool:
        return self.price_microusd_per_hour > 0

    @property
    def max_run_or_inf_s(self) -> float:
        """Of one run; endless where nobody ends it."""
        return inf if self.max_run_s is None else self.max_run_s

    @property
    def key(self) -> "OfferKey":
        """What is full, refuses or is taken back as one."""
        return self.backend, self.region, self.zone, self.name, self.interruptible


@dataclass(frozen=True, slots=True, kw_only=True)
class Handle:
    """What the provider calls the attempt. A handle with only a name must be enough to find it."""

    name: str
    native: Json = field(default_factory=dict)
