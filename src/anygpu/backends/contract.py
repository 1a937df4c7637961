"""The interface of a backend: four methods, plus optional capabilities that are found by isinstance."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

from anygpu.events.facts import Failure
from anygpu.events.offers import Handle, Offer
from anygpu.spec.sections import Resources


class MachineState(StrEnum):
    """The state of an attempt's machine, as its provider reports it."""

    PENDING = "pending"
    RUNNING = "running"
    EXITED = "exited"  # it still exists and may be billed, but will not run again
    GONE = "gone"  # the provider confirms that nothing is left
    ABSENT = "absent"  # the provider does not list it; it may appear later where lists lag


@dataclass(frozen=True, slots=True, kw_only=True)
class BilledInterval:
    """The time a machine was billed for, by its provider's clock."""

    started_at_ms: int
    ended_at_ms: int | None = None
    price_microusd_per_hour: int | None = None  # None: the price of the attempt's own machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """The result of one probe of an attempt."""

    state: MachineState
    detail: str = ""
    preempted: bool = False
    started_at_ms: int | None = None  # start of billing, by the provider's clock
    ended_at_ms: int | None = None  # end of billing, by the provider's clock
    failure: Failure | None = None  # a start-up step failed for good: the attempt will not run
    price_microusd_per_hour: int | None = None  # the billed price, if the provider reports it
    duplicates: tuple[BilledInterval, ...] = ()  # further machines of the same name, also billed


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRequest:
    """Everything a backend needs to start an attempt. Launching the same name twice starts one attempt."""

    name: str
    job_id: str
    attempt: int
    ticket: str
    agent_url: str
    resources: Resources
    max_run_s: float | None = None
    lease_s: float = 0


class Backend(Protocol):
    """A place that can run attempts. Every method accepts a handle that holds only the name."""

    name: str
    probe_every_s: float  # interval between probes of a healthy attempt; 0: probing is free

    async def offers(self, need: Resources) -> Sequence[Offer]: ...

    async def launch(self, launch: LaunchRequest, offer: Offer) -> Handle:
        """Start an attempt. Idempotent by name. An error other than LaunchError leaves the outcome unknown."""
        ...

    async def probe(self, handle: Handle) -> Observation: ...

    async def terminate(self, handle: Handle) -> None:
        """End the machine and everything on it. Idempotent; `probe` confirms the end."""
        ...


@runtime_checkable
class SupportsInventory(Protocol):
    """Lists the attempts that exist, so that the sweeper can end orphans."""

    async def inventory(self) -> Sequence[Handle]: ...


@runtime_checkable
class SupportsDelivery(Protocol):
    """Sends the reports that a dead agent left in its spool."""

    async def deliver(self, handle: Handle) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountStatus:
    """Whether a backend's credentials work, and what they allow."""

    valid: bool
    message: str = ""  # why the credentials fail and what to do; or whose they are
    balance_microusd: int | None = None
    quota: str = ""


@runtime_checkable
class SupportsAccountCheck(Protocol):
    """Checks its credentials with the provider."""

    async def check(self) -> AccountStatus: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """A resource without a machine that may be billed: an address, a disk, a key."""

    kind: str  # address | disk | key | group
    id: str
    name: str  # the attempt it was created for; empty: unknown
    region: str = ""


@runtime_checkable
class SupportsLeftovers(Protocol):
    """Lists and removes leftover resources. Lists only those that carry our name."""

    async def leftovers(self) -> Sequence[Leftover]: ...

    async def remove(self, leftover: Leftover) -> None:
        """Idempotent."""
        ...


@runtime_checkable
class SupportsMetering(Protocol):
    """Reads the cost of an attempt from the provider; None while it is not known there."""

    async def metered_microusd(self, handle: Handle) -> int | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellLogin:
    """SSH access to an attempt's machine, for a person."""

    host: str
    port: int
    user: str
    private_key: str  # OpenSSH format
    host_keys: tuple[str, ...] = ()


@runtime_checkable
class SupportsShell(Protocol):
    """Gives people SSH access to the machine of an attempt."""

    async def shell(self, handle: Handle) -> ShellLogin: ...
