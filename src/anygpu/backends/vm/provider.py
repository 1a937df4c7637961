"""The interface of a VM provider, and the errors it raises. Each file in `backends/clouds/` implements it.

A provider translates the errors of its API: `NoCapacity`, `LaunchRefused` (quota, wrong region, wrong
credentials, unknown type: the message says which), `RateLimited`, `BackendUnavailable`. After any other
error, it is unknown whether the request was executed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

from anygpu.backends.contract import AccountStatus, Leftover, NativeRequest
from anygpu.errors import LaunchRefused
from anygpu.events.offers import Offer
from anygpu.spec.sections import Resources


class CredentialsRefused(LaunchRefused):
    """The provider does not accept the credentials.

    Check them and their permissions: `anygpu backend check`.
    """

    code = "credentials_refused"


class ResourceNotFound(LaunchRefused):
    """The provider does not have this resource. Nothing to do if it was to be removed anyway."""

    code = "resource_gone"


class OutcomeUnknown(Exception):
    """The provider may or may not have executed the request. Check its list before you repeat the request."""


class PowerState(StrEnum):
    """The state of a machine, as its provider reports it."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPED = "stopped"  # the machine exists and may be billed, but runs nothing
    ENDING = "ending"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudMachine:
    """A machine, as its provider lists it."""

    id: str
    name: str  # the attempt's name; all resources of the attempt have this name
    power: PowerState
    region: str = ""
    address: str = ""  # empty: none yet
    port: int = 22
    detail: str = ""
    preempted: bool = False  # the provider has reclaimed the machine, or will
    started_at_ms: int | None = None  # by the provider's clock; None: unknown
    ended_at_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineOrder:
    """The description of a machine to create.

    If the provider has idempotency keys, repeated orders with the same name create one machine.
    """

    name: str
    offer: Offer
    public_key: str  # OpenSSH format, one line; only this key may log in
    startup_script: str  # runs as root at boot: ends the machine after its maximum lifetime
    max_life_s: float | None = None  # for providers that end machines by themselves


class Provider(Protocol):
    """The interface of a VM provider."""

    user: str  # login user of its images
    self_expires: str  # how a machine ends if the server is gone: halt | max_duration | none
    idempotent: bool  # whether creating a name twice returns the same machine
    listing_lag_s: float  # how long its lists may omit a new machine
    notices: str  # kind of preemption notice on its machines: aws | gcp | azure | ""

    async def offers(self, need: Resources) -> Sequence[Offer]:
        """Return offers with prices that could fit `need`. The caller sets their `backend`."""
        ...

    async def create(self, order: MachineOrder) -> CloudMachine: ...

    async def machines(self) -> Sequence[CloudMachine]:
        """Return all machines whose names have anygpu's prefix, including ended ones that are still listed."""
        ...

    async def destroy(self, machine: CloudMachine) -> None:
        """Destroy the machine with its address, disk and key. Succeeds if it no longer exists."""
        ...

    async def check(self) -> AccountStatus: ...

    async def leftovers(self) -> Sequence[Leftover]: ...

    async def remove(self, leftover: Leftover) -> None: ...

    async def host_keys(self, machine: CloudMachine) -> Sequence[str]:
        """Return the machine's SSH host keys; empty if the provider never shows them.

        Raise `BackendUnavailable` if the provider does not know them yet.
        """
        ...

    async def close(self) -> None: ...


@runtime_checkable
class NativeRequestProvider(Protocol):
    """A provider that can show the requests of `create` without sending them, and without creating anything."""

    async def native_requests(self, order: MachineOrder) -> Sequence[NativeRequest]: ...


@runtime_checkable
class MeteredProvider(Protocol):
    """A provider that reports the cost of an ended machine.

    The cost is None while the provider does not know it yet.
    """

    async def metered_microusd(self, machine: CloudMachine) -> int | None: ...
