"""What an agent finds on its machine: the network, the blob store, and trouble."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeVar
from urllib.parse import unquote, urlsplit

from anygpu.errors import ServerUnreachable
from anygpu.testing.faults import Fault, Faults
from anygpu.testing.memory_blobs import MemoryBlobs
from anygpu.testing.network import Line, Network
from anygpu.testing.process import ControlProcess
from anygpu.testing.provider import Machine
from anygpu.testing.records import AgentRecord
from anygpu.testing.virtual import SeededChance, VirtualLoop

T = TypeVar("T")


class Resident(Protocol):
    """Who lives on the machine."""

    machine: Machine
    record: AgentRecord


@dataclass(slots=True)
class Habitat:
    """Shared by every agent of a world."""

    loop: VirtualLoop
    faults: Faults
    chance: SeededChance
    network: Network
    blobs: MemoryBlobs
    trace: Callable[[str], None]
    problem: Callable[[str], None]
    records: list[AgentRecord] = field(default_factory=list)
    _lines: dict[str, Line] = field(default_factory=dict)

    async def call(self, machine: Machine, invoke: Callable[[ControlProcess], Awaitable[T]]) -> T:
        line = self._lines.get(machine.name + machine.id)
        if line is None:
            line = Line(machine.name, lambda: self.loop.time() < machine.cut_off_until)
            self._lines[machine.name + machine.id] = line
        return await self.network.call(line, invoke)

    def trouble(self, agent: Resident) -> None:
        """Now and then the machine is cut off, stands still, or is taken away."""
        machine, now = agent.machine, self.loop.time()
        if self.faults.strikes(Fault.PARTITIONED):
            machine.cut_off_until = now + self.faults.between(10, 150)
        elif self.faults.strikes(Fault.PAUSED):
            pause_s = self.faults.between(20, 160)
            machine.paused_until = now + pause_s
            machine.frozen_s += pause_s
            agent.record.stood_still = True

    async def put(self, machine: Machine, url: str, data: bytes) -> None:
        """A PUT straight to the store. What arrives may be cut short or changed."""
        if self.loop.time() < machine.cut_off_until or self.faults.strikes(Fault.REQUEST_LOST):
            raise ServerUnreachable("the upload broke off")
        if self.faults.strikes(Fault.UPLOAD_TORN):
            data = data[: len(data) // 2]
        elif self.faults.strikes(Fault.UPLOAD_CORRUPT):
            data = bytes([data[0] ^ 1]) + data[1:]
        await self.blobs.put(blob_key(url), data)

    async def get(self, machine: Machine, url: str) -> bytes:
        if self.loop.time() < machine.cut_off_until:
            raise ServerUnreachable("the download broke off")
        return await self.blobs.get(blob_key(url))


def blob_key(url: str) -> str:
    return unquote(urlsplit(url).path).removeprefix("/blobs/")
