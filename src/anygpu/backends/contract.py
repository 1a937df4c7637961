"""A backend is four verbs; what only some can do is a capability of its own, found by isinstance."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

from anygpu.events.facts import Failure
from anygpu.events.offers import Handle, Offer
from anygpu.spec.sections import Resources


class MachineState(StrEnum):
    """What the provider says of an attempt's machine."""

    PENDING = "pending"
    RUNNING = "running"
    EXITED = "exited"  # still there (and perhaps billing), but it will not run again
    GONE = "gone"  # the provider confirms that nothing is left
    ABSENT = "absent"  # the provider does not list it; where lists lag this proves nothing yet


@dataclass(frozen=True, slots=True, kw_only=True)
class BilledInterval:
    """When a machine was billed, by its provider's clock."""

    started_at_ms: int
    ended_at_ms: int | None = None
    price_microusd_per_hour: int | None = None  # where it differs from that of the first


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One look at an attempt through its provider."""

    state: MachineState
    detail: str = ""
    preempted: bool = False
    started_at_ms: int | None = None  # by the provider's clock: when it began to bill
    ended_at_ms: int | None = None  # by the provider's clock: when it stopped
    failure: Failure | None = None  # a step of getting it to run failed for good: it will not run
    price_microusd_per_hour: int | None = None  # what it is billed at, where the provider says so
    duplicates: tuple[BilledInterval, ...] = ()  # other machines of the same name, which are billed too


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRequest:
    """What a backend needs to start an attempt. Launching the same name twice starts one."""

    name: str
    job_id: str
    attempt: int
    ticket: str
    agent_url: str
    resources: Resources
    max_run_s: float | None = None
    lease_s: float = 0


class Backend(Protocol):
    """A place that can run attempts. Every verb works with a handle that holds only the name."""

    name: str
    probe_every_s: float  # how often to look at a healthy attempt; 0 when a look costs nothing

    async def offers(self, need: Resources) -> Sequence[Offer]: ...

    async def launch(self, launch: LaunchRequest, offer: Offer) -> Handle:
        """Idempotent by name. Raises a LaunchError; any other error leaves the outcome unknown."""
        ...

    async def probe(self, handle: Handle) -> Observation: ...

    async def terminate(self, handle: Handle) -> None:
        """End the machine and everything on it. Twice is the same as once; `probe` confirms."""
        ...


@runtime_checkable
class SupportsInventory(Protocol):
    """Can say what of ours exists, so that the sweeper can end what nobody owns."""

    async def inventory(self) -> Sequence[Handle]: ...


@runtime_checkable
class SupportsDelivery(Protocol):
    """Can send what a dead agent left in its spool."""

    async def deliver(self, handle: Handle) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountStatus:
    """What a provider says of the credentials a backend uses."""

    valid: bool
    message: str = ""  # in words, for the person who must act; also who we are when it is valid
    balance_microusd: int | None = None
    quota: str = ""


@runtime_checkable
class SupportsAccountCheck(Protocol):
    """Can say whether its credentials work, and what they allow."""

    async def check(self) -> AccountStatus: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """A thing that is no machine and may bill or clutter: an address, a disk, a key."""

    kind: str  # address | disk | key | group
    id: str
    name: str  # the attempt it was made for; empty when it carries none
    region: str = ""


@runtime_checkable
class SupportsLeftovers(Protocol):
    """Can list and remove what machines leave behind. Lists only what carries our name."""

    async def leftovers(self) -> Sequence[Leftover]: ...

    async def remove(self, leftover: Leftover) -> None:
        """Twice is the same as once."""
        ...


@runtime_checkable
class SupportsMetering(Protocol):
    """Can ask what the provider itself says an attempt cost; None while it does not say."""

    async def metered_microusd(self, handle: Handle) -> int | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellAccess:
    """How a person gets onto an attempt's machine."""

    host: str
    port: int
    user: str
    private_key: str  # OpenSSH format
    host_keys: tuple[str, ...] = ()


@runtime_checkable
class SupportsShell(Protocol):
    """Can let a person onto the machine of an attempt."""

    async def shell(self, handle: Handle) -> ShellAccess: ...
