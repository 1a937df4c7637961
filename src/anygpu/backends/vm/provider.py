"""The interface of a VM provider, and the errors it raises. Each file in `backends/clouds/` implements it.

Adapters translate their vendor's errors: `NoCapacity`, `LaunchRefused` (quota, wrong region, wrong credentials, unknown
type: say which), `RateLimited`, `BackendUnavailable`. Any other error leaves the outcome unknown.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

from anygpu.backends.contract import AccountStatus, Leftover
from anygpu.errors import LaunchRefused
from anygpu.events.offers import Offer
from anygpu.spec.sections import Resources


class CredentialsRefused(LaunchRefused):
    """The provider does not accept the credentials. Check them with `anygpu backend check`, and what they may do."""

    code = "credentials_refused"


class ResourceNotFound(LaunchRefused):
    """The provider does not know this resource. Nothing to do when it was to be removed."""

    code = "resource_gone"


class OutcomeUnknown(Exception):
    """The provider may or may not have done what was asked: look at its list before asking again."""


class PowerState(StrEnum):
    """What the provider says a machine does."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPED = "stopped"  # still there, perhaps still billed, runs nothing
    ENDING = "ending"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudMachine:
    """One machine as its provider lists it."""

    id: str
    name: str  # the attempt's name, which every resource of it carries
    power: PowerState
    region: str = ""
    address: str = ""  # empty until there is one
    port: int = 22
    detail: str = ""
    preempted: bool = False  # it was taken back, or will be
    started_at_ms: int | None = None  # by the provider's clock; None where the provider does not say
    ended_at_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineOrder:
    """A machine to be created. Two orders of one name are one machine where the provider knows idempotency keys."""

    name: str
    offer: Offer
    public_key: str  # OpenSSH format, one line; only this key may log in
    startup_script: str  # a shell script that runs as root at boot: ends the machine when its life is over
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

    async def create(self, order: MachineOrder) -> CloudMachine: ...

    async def machines(self) -> Sequence[CloudMachine]:
        """Every machine that carries our name, ended ones too while the provider still shows them."""
        ...

    async def destroy(self, machine: CloudMachine) -> None:
        """End it, with its address, disk and key. Twice is the same as once."""
        ...

    async def check(self) -> AccountStatus: ...

    async def leftovers(self) -> Sequence[Leftover]: ...

    async def remove(self, leftover: Leftover) -> None: ...

    async def host_keys(self, machine: CloudMachine) -> Sequence[str]:
        """The machine's SSH host keys as the provider knows them; empty when it never knows. An error: not yet."""
        ...

    async def close(self) -> None: ...


@runtime_checkable
class MeteredProvider(Protocol):
    """A provider that says what a machine cost. None while it does not say yet; asked after the machine has ended."""

    async def metered_microusd(self, machine: CloudMachine) -> int | None: ...
