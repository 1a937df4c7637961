"""A rented machine in the provider's records, and the order from which it was created."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from anygpu.cloudsim.vendor import OnHalt, SimMachineType, SimVendor


class InstanceState(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    STOPPED = "stopped"  # shut down, at a vendor where a shutdown does not terminate
    ENDING = "ending"
    ENDED = "ended"

    @property
    def is_active(self) -> bool:
        return self in (InstanceState.PENDING, InstanceState.RUNNING)

    @property
    def is_ended(self) -> bool:
        return self in (InstanceState.ENDING, InstanceState.ENDED)


class StopCause(StrEnum):
    """Why a machine no longer runs."""

    USER = "user"  # terminated through the API
    HALT = "halt"  # the machine shut itself down
    PREEMPTED = "preempted"
    EXPIRED = "expired"  # its maximum lifetime at the provider was reached
    NONE = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceOrder:
    """A request to launch an instance. Only the owners of `public_keys` may log in to it."""

    vendor: SimVendor
    type: str
    region: str
    zone: str = ""
    name: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    spot: bool = False
    client_token: str = ""  # orders with the same token return the same instance; empty: always a new one
    parameters: str = ""  # the other parameters in canonical form; must match if a token is used again
    user_data: bytes = b""  # a script (#!) or cloud-config
    public_keys: tuple[str, ...] = ()
    on_halt: OnHalt | None = None  # None: the vendor's default
    max_life_s: float | None = None
    disk_gib: int = 0
    keep_disk: bool = False  # the disk is kept when the instance ends
    public_address: bool = True  # False: none until one is associated
    env: Mapping[str, str] = field(default_factory=dict)  # environment of all processes on the machine
    native: Mapping[str, Any] = field(default_factory=dict)  # data that only the vendor's API uses


class MachineRuntime(Protocol):
    """Interface of the machine behind an instance: its processes, disk and network."""

    @property
    def host_key(self) -> str:
        """The public SSH host key as one line of text; empty before boot."""
        ...

    @property
    def console(self) -> str: ...

    async def boot(self) -> None:
        """Boot the machine, and return when login is possible."""
        ...

    async def halt(self) -> None:
        """Kill all processes and abort all connections of the machine. Idempotent."""
        ...

    async def erase_disk(self) -> None:
        """Delete the disk. The console output remains readable."""
        ...

    async def listen(self, address: str) -> None:
        """Listen on an additional address."""
        ...

    async def stop_listening(self, address: str) -> None:
        """Stop listening on an address and abort its connections."""
        ...

    def set_connected(self, connected: bool) -> None:
        """Connect or cut the network.

        While the network is cut, connections stay open, and data waits until the network is restored.
        """
        ...

    def limit_file_size(self, file_bytes: int | None) -> None:
        """Limit the size of each file to `file_bytes`, to simulate a full disk; None removes the limit."""
        ...


@dataclass(slots=True, kw_only=True, eq=False)
class Instance:
    """A launched instance.

    Times are in milliseconds by the simulator's clock. A time is None if its event has not happened yet.
    """

    id: str
    order: InstanceOrder
    type: SimMachineType
    zone: str
    price_microusd_per_hour: int
    state: InstanceState = InstanceState.PENDING
    created_at_ms: int
    running_at_ms: int | None = None
    booted_at_ms: int | None = None  # when login became possible
    stopped_at_ms: int | None = None  # end of its processes, and of billing unless only switched off
    ended_at_ms: int | None = None  # when its resources were released
    address: str = ""  # address of its SSH server; empty while it has none
    internal_ip: str  # its own loopback address: metadata, and SSH unless a public address is associated
    cause: StopCause = StopCause.NONE
    notice_at_ms: int | None = None  # when the preemption notice was given
    preempt_at_ms: int | None = None  # when it will be preempted
    shutdown_at_ms: int | None = None  # when a `shutdown +N` takes effect
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
