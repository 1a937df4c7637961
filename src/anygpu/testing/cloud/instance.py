"""A rented machine as its provider knows it, and what was ordered."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from anygpu.testing.cloud.vendor import MachineType, OnHalt, Vendor


class State(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    STOPPED = "stopped"  # halted where a halt only stops it
    ENDING = "ending"
    ENDED = "ended"

    @property
    def alive(self) -> bool:
        return self in (State.PENDING, State.RUNNING)

    @property
    def over(self) -> bool:
        return self in (State.ENDING, State.ENDED)


class Cause(StrEnum):
    """Why a machine is no longer running."""

    USER = "user"  # ended through the API
    HALT = "halt"  # it shut itself down
    PREEMPTED = "preempted"
    EXPIRED = "expired"  # its provider-side maximum life was over
    NONE = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A machine to be rented. Only these `public_keys` may log in."""

    vendor: Vendor
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
    keeps_disk: bool = False  # its disk outlives it
    public_address: bool = True  # False: it has none until one is associated
    env: Mapping[str, str] = field(default_factory=dict)  # for every process on the machine
    native: Mapping[str, Any] = field(default_factory=dict)  # what only the dialect understands


class Body(Protocol):
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

    async def erase(self) -> None:
        """Its disk is gone. What its console showed can still be read."""
        ...

    async def listen(self, address: str) -> None:
        """Answers on one more address."""
        ...

    async def silence(self, address: str) -> None:
        """No longer answers there; its connections break."""
        ...

    def cut(self, connected: bool) -> None:
        """While cut, nothing goes in or out, and nothing is told of it."""
        ...

    def limit_files(self, file_bytes: int | None) -> None:
        """The disk is full: no file grows beyond this."""
        ...


@dataclass(slots=True, kw_only=True, eq=False)
class Instance:
    """One machine. Times are milliseconds by the simulator's clock; None: not yet."""

    id: str
    order: Order
    type: MachineType
    zone: str
    price_microusd_per_hour: int
    state: State = State.PENDING
    created_at_ms: int
    running_at_ms: int | None = None
    booted_at_ms: int | None = None  # it can be logged in to
    stopped_at_ms: int | None = None  # it no longer runs (and, unless only `off`, no longer bills)
    ended_at_ms: int | None = None  # the provider has cleaned up
    address: str = ""  # where its SSH server answers; empty while it has none
    inside_ip: (
        str  # its own loopback address: metadata, and the public address too unless that is rented apart
    )
    cause: Cause = Cause.NONE
    notice_at_ms: int | None = None  # when it was told that it will be taken
    taken_at_ms: int | None = None  # when it will be
    off_at_ms: int | None = None  # when a `shutdown +N` falls due
    body: Body | None = None
    tags: dict[str, str] = field(default_factory=dict)
    disks: list[str] = field(default_factory=list)

    @property
    def vendor(self) -> Vendor:
        return self.order.vendor

    @property
    def region(self) -> str:
        return self.order.region

    @property
    def name(self) -> str:
        return self.order.name

    @property
    def console(self) -> str:
        return self.body.console if self.body else ""

    @property
    def host_key(self) -> str:
        return self.body.host_key if self.body else ""
