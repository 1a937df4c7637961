"""A rented machine as its provider knows it, and what was ordered."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from anygpu.cloudsim.vendor import MachineType, OnHalt, SimVendor


class InstanceState(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    STOPPED = "stopped"  # halted where a halt only stops it
    ENDING = "ending"
    ENDED = "ended"

    @property
    def is_active(self) -> bool:
        return self in (InstanceState.PENDING, InstanceState.RUNNING)

    @property
    def is_ended(self) -> bool:
        return self in (InstanceState.ENDING, InstanceState.ENDED)


class StopCause(StrEnum):
    """Why a machine is no longer running."""

    USER = "user"  # ended through the API
    HALT = "halt"  # it shut itself down
    PREEMPTED = "preempted"
    EXPIRED = "expired"  # its provider-side maximum life was over
    NONE = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceOrder:
    """A machine to be rented. Only these `public_keys` may log in."""

    vendor: SimVendor
    type: str
    region: str
    zone: str = ""
    name: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    spot: bool = False
    client_token: str = ""  # the same token again is the same machine; empty: every order is a new one
    parameters: str = (
        ""  # everything else that was asked, canonical: another text with one token is a mismatch
    )
    user_data: bytes = b""  # a script when it begins with #!, or cloud-config
    public_keys: tuple[str, ...] = ()
    on_halt: OnHalt | None = None  # None: as the vendor has it
    max_life_s: float | None = None
    disk_gib: int = 0
    keep_disk: bool = False  # its disk outlives it
    public_address: bool = True  # False: it has none until one is associated
    env: Mapping[str, str] = field(default_factory=dict)  # for every process on the machine
    native: Mapping[str, Any] = field(default_factory=dict)  # what only the dialect understands


class MachineRuntime(Protocol):
    """The machine behind an instance: what really runs."""

    @property
    def host_key(self) -> str:
        """OpenSSH public key line; empty before it has booted."""
        ...

    @property
    def console(self) -> str: ...

    async def boot(self) -> None:
        """Returns when it can be logged in to."""
        ...

    async def halt(self) -> None:
        """Kills every process, breaks every connection. Twice is the same as once."""
        ...

    async def erase_disk(self) -> None:
        """Its disk is gone. What its console showed can still be read."""
        ...

    async def listen(self, address: str) -> None:
        """Answers on one more address."""
        ...

    async def stop_listening(self, address: str) -> None:
        """No longer answers there; its connections break."""
        ...

    def set_connected(self, connected: bool) -> None:
        """While cut, nothing goes in or out, and nothing is told of it."""
        ...

    def limit_file_size(self, file_bytes: int | None) -> None:
        """The disk is full: no file grows beyond this."""
        ...


@dataclass(slots=True, kw_only=True, eq=False)
class Instance:
    """One machine. Times are milliseconds by the simulator's clock; None: not yet."""

    id: str
    order: InstanceOrder
    type: MachineType
    zone: str
    price_microusd_per_hour: int
    state: InstanceState = InstanceState.PENDING
    created_at_ms: int
    running_at_ms: int | None = None
    booted_at_ms: int | None = None  # it can be logged in to
    stopped_at_ms: int | None = None  # it no longer runs (and, unless only `off`, no longer bills)
    ended_at_ms: int | None = None  # the provider has cleaned up
    address: str = ""  # where its SSH server answers; empty while it has none
    internal_ip: (
        str  # its own loopback address: metadata, and the public address too unless that is rented apart
    )
    cause: StopCause = StopCause.NONE
    notice_at_ms: int | None = None  # when it was told that it will be taken
    preempt_at_ms: int | None = None  # when it will be
    shutdown_at_ms: int | None = None  # when a `shutdown +N` falls due
    machine: MachineRuntime | None = None
    tags: dict[str, str] = field(default_factory=dict)
    disks: list[str] = field(default_factory=list)

    @property
    def vendor(self) -> SimVendor:
        return self.order.vendor

    @property
    def region(self) -> str:
        return self.order.region

    @property
    def name(self) -> str:
        return self.order.name

    @property
    def console(self) -> str:
        return self.machine.console if self.machine else ""

    @property
    def host_key(self) -> str:
        return self.machine.host_key if self.machine else ""
