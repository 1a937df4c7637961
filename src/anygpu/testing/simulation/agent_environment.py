"""What simulated agents use: the network and the blob store, with faults of their machines."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeVar
from urllib.parse import unquote, urlsplit

from anygpu.errors import ServerUnreachable
from anygpu.testing.memory.blobs import MemoryBlobs
from anygpu.testing.simulation.control_process import ControlProcess
from anygpu.testing.simulation.faults import Fault, FaultInjector
from anygpu.testing.simulation.network import SimConnection, SimNetwork
from anygpu.testing.simulation.provider import SimMachine
from anygpu.testing.simulation.records import AgentRecord
from anygpu.testing.simulation.virtual_time import SeededRandomness, VirtualLoop

T = TypeVar("T")


class MachineUser(Protocol):
    """An agent with its machine and its record."""

    machine: SimMachine
    record: AgentRecord


@dataclass(slots=True)
class AgentEnvironment:
    """The network, blob store and faults that all agents of a world share."""

    loop: VirtualLoop
    faults: FaultInjector
    randomness: SeededRandomness
    network: SimNetwork
    blobs: MemoryBlobs
    trace: Callable[[str], None]
    problem: Callable[[str], None]
    records: list[AgentRecord] = field(default_factory=list)
    _connections: dict[str, SimConnection] = field(default_factory=dict)

    async def call(self, machine: SimMachine, invoke: Callable[[ControlProcess], Awaitable[T]]) -> T:
        connection = self._connections.get(machine.name + machine.id)
        if connection is None:
            connection = SimConnection(machine.name, lambda: self.loop.time() < machine.cut_off_until)
            self._connections[machine.name + machine.id] = connection
        return await self.network.call(connection, invoke)

    def maybe_disturb(self, agent: MachineUser) -> None:
        """Perhaps cut off the machine's network, or pause the machine."""
        machine, now = agent.machine, self.loop.time()
        if self.faults.occurs(Fault.PARTITIONED):
            machine.cut_off_until = now + self.faults.uniform(10, 150)
        elif self.faults.occurs(Fault.PAUSED):
            pause_s = self.faults.uniform(20, 160)
            machine.paused_until = now + pause_s
            machine.frozen_s += pause_s
            agent.record.was_paused = True

    async def put(self, machine: SimMachine, url: str, data: bytes) -> None:
        """Upload to the blob store. The data may be truncated or corrupted."""
        if self.loop.time() < machine.cut_off_until or self.faults.occurs(Fault.REQUEST_LOST):
            raise ServerUnreachable("the upload broke off")
        if self.faults.occurs(Fault.UPLOAD_TORN):
            data = data[: len(data) // 2]
        elif self.faults.occurs(Fault.UPLOAD_CORRUPT):
            data = bytes([data[0] ^ 1]) + data[1:]
        await self.blobs.put(blob_key(url), data)

    async def get(self, machine: SimMachine, url: str) -> bytes:
        if self.loop.time() < machine.cut_off_until:
            raise ServerUnreachable("the download broke off")
        return await self.blobs.get(blob_key(url))


def blob_key(url: str) -> str:
    return unquote(urlsplit(url).path).removeprefix("/blobs/")
