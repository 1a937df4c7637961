"""Offers of machines, their billing rules, and the handles of launched machines.

The planner, the backends and the events share these types. Their fields are part of the journal's format.
"""

from dataclasses import dataclass, field
from math import inf
from typing import Any

Json = dict[str, Any]
MICROUSD = 1_000_000
HOUR_S = 3600
LOCAL = "local"  # name of the backend that runs attempts on the machine of the server


OfferKey = tuple[str, str, str, str, bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Billing:
    """A billing rule: the time is rounded up to a multiple of `step_s`, and is at least `minimum_s`."""

    step_s: int = 1
    minimum_s: int = 0

    def billed_s(self, used_s: int) -> int:
        """Return the seconds that are charged for a machine that existed for `used_s` seconds."""
        steps = -(-max(0, used_s) // self.step_s)
        return max(self.minimum_s, steps * self.step_s)

    def cost_microusd(self, price_microusd_per_hour: int, used_s: int) -> int:
        """Return the cost of a machine that existed for `used_s` seconds, rounded to micro-dollars."""
        return (price_microusd_per_hour * self.billed_s(used_s) + HOUR_S // 2) // HOUR_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A machine that a backend can provide, and its price."""

    backend: str
    name: str = ""  # the instance type, or the name of the machine
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
    free: int | None = None  # how many machines (nodes) can start now, one for an attempt; None if unknown
    wait_reason: str = ""
    expected_wait_s: float = 0
    max_run_s: float | None = None
    containers: bool = False  # whether the machine can run container images
    self_expires: str = "none"  # halt | max_duration | none: how the machine ends without the server
    billing: Billing = Billing()
    lease_s: float = 0  # how long an agent may lose contact before it stops; 0: the server's default
    refused: str = ""  # why the backend's configuration forbids the offer, such as a price limit
    driver: str = ""  # the version of the GPU driver, if known
    own: bool = False  # the organisation's own machine; its price, if any, is only for comparison
    shared: bool = False  # whether other jobs or other customers may use the machine at the same time
    max_nodes: int = 1  # how many such machines one attempt may have
    interconnect: str = ""  # between these machines: ethernet | efa | infiniband | nvlink; empty: unknown
    # Modules of built-in trainers that are not installed there. Empty where the agent installs them.
    missing_modules: tuple[str, ...] = ()
    # Jobs wait in a queue of the engine, which shares the machines: `free` says only how many jobs it accepts now.
    has_queue: bool = False
    answered: bool = True  # False: it stands for machines that have not answered; only `wait_reason` is known

    @property
    def is_paid(self) -> bool:
        return self.price_microusd_per_hour > 0

    @property
    def is_rented(self) -> bool:
        """Whether using the offer costs money that is otherwise not spent, so that a job needs consent."""
        return self.is_paid and not self.own

    @property
    def is_shared_by_jobs(self) -> bool:
        """Whether anygpu shares these machines of the organisation among jobs and projects."""
        return self.free is not None and not self.is_paid and not self.has_queue

    @property
    def is_full(self) -> bool:
        """Whether no attempt can start now."""
        return self.free is not None and self.free <= 0

    @property
    def free_or_inf(self) -> float:
        """How many machines can start now; infinite if unknown, because only a launch can tell."""
        return inf if self.free is None else self.free

    @property
    def max_run_or_inf_s(self) -> float:
        """The longest run on this machine in seconds; infinite without a limit."""
        return inf if self.max_run_s is None else self.max_run_s

    def place_fields(self) -> Json:
        """Return the fields that say where the machine is, for plans, job details and errors."""
        return {
            "backend": self.backend,
            "name": self.name,
            "region": self.region,
            "zone": self.zone,
            "gpu": self.gpu_kind,
            "gpus": self.gpu_count,
            "interruptible": self.interruptible,
        }

    @property
    def key(self) -> "OfferKey":
        """The identity of the offer, by which free capacity, refused launches and preemptions are tracked."""
        return self.backend, self.region, self.zone, self.name, self.interruptible


@dataclass(frozen=True, slots=True, kw_only=True)
class Handle:
    """The provider's reference to a launched attempt. The name alone must be enough to find the attempt."""

    name: str
    native: Json = field(default_factory=dict)
