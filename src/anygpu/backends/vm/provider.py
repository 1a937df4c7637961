"""What a provider of machines must be able to do. One file under `backends/clouds/` per provider implements this.

Adapters translate their vendor's errors at their own edge: `NoCapacity`, `LaunchRefused` (quota, wrong region, wrong
credentials, unknown type: say which), `RateLimited`, `BackendUnavailable`. Any other error leaves the outcome unknown.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

from anygpu.backends.contract import Account, Leftover
from anygpu.events.offers import Offer
from anygpu.spec.sections import Resources


class Power(StrEnum):
    """What the provider says a machine does."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPED = "stopped"  # still there, perhaps still billed, runs nothing
    ENDING = "ending"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One machine as its provider lists it."""

    id: str
    name: str  # the attempt's name, which every resource of it carries
    power: Power
    region: str = ""
    address: str = ""  # empty until there is one
    port: int = 22
    detail: str = ""
    preempted: bool = False  # it was taken back, or will be
    started_at_ms: int | None = None  # by the provider's clock; None where the provider does not say
    ended_at_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A machine to be created. Two orders of one name are one machine where the provider knows idempotency keys."""

    name: str
    offer: Offer
    public_key: str  # OpenSSH format, one line; only this key may log in
    startup: str  # a shell script that runs as root at boot: ends the machine when its life is over
    max_life_s: float | None = None  # for providers that can end a machine by themselves


class Provider(Protocol):
    """A provider of machines. `self_expires` and `idempotent` say what may be relied on when we are not there."""

    user: str  # who logs in on its images
    self_expires: str  # halt | max_duration | none
    idempotent: bool  # creating a name twice gives the same machine, by the provider's own promise
    listing_lag_s: float  # how long a new machine may be missing from its lists
    notices: str  # aws | gcp | azure | "": whose preemption notice its machines can read

    async def offers(self, need: Resources) -> Sequence[Offer]:
        """Everything that could hold `need`, priced. `backend` is filled in by the caller."""
        ...

    async def create(self, order: Order) -> Machine: ...

    async def machines(self) -> Sequence[Machine]:
        """Every machine that carries our name, ended ones too while the provider still shows them."""
        ...

    async def destroy(self, machine: Machine) -> None:
        """End it, with its address, disk and key. Twice is the same as once."""
        ...

    async def check(self) -> Account: ...

    async def leftovers(self) -> Sequence[Leftover]: ...

    async def remove(self, leftover: Leftover) -> None: ...

    async def host_keys(self, machine: Machine) -> Sequence[str]:
        """The machine's SSH host keys as the provider knows them; empty when it never knows. An error: not yet."""
        ...

    async def close(self) -> None: ...


@runtime_checkable
class Meters(Protocol):
    """A provider that says what a machine cost. None while it does not say yet; asked after the machine has ended."""

    async def metered_microusd(self, machine: Machine) -> int | None: ...
