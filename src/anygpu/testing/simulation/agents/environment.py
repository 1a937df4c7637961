"""The network and the blob store that simulated agents use, and the faults that affect agents."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

from anygpu.backends.contract import LaunchRequest
from anygpu.errors import AnygpuError, ServerUnreachable
from anygpu.testing.memory.blobs import MemoryBlobs
from anygpu.testing.simulation.control_process import ControlProcess
from anygpu.testing.simulation.faults import Fault, FaultInjector
from anygpu.testing.simulation.network import SimConnection, SimNetwork
from anygpu.testing.simulation.providers.provider import SimMachine, SimProvider
from anygpu.testing.simulation.records import AgentRecord, SimFrame
from anygpu.testing.simulation.relay import RelayLine, SimRelay
from anygpu.testing.simulation.virtual_time import SeededRandomness, SimWake, VirtualLoop

T = TypeVar("T")


@dataclass(slots=True)
class AgentEnvironment:
    """The network, blob store and faults that all agents of one simulated history share."""

    loop: VirtualLoop
    faults: FaultInjector
    randomness: SeededRandomness
    network: SimNetwork
    relay: SimRelay
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

    def maybe_disturb(self, machine: SimMachine, record: AgentRecord) -> None:
        """Cut the machine's network or pause the machine for a while, if a random fault is due."""
        now = self.loop.time()
        if self.faults.occurs(Fault.PARTITIONED):
            machine.cut_off_until = now + self.faults.uniform(10, 150)
        elif self.faults.occurs(Fault.PAUSED):
            pause_s = self.faults.uniform(20, 160)
            machine.paused_until = now + pause_s
            machine.frozen_s += pause_s
            record.was_paused = True

    async def put(self, machine: SimMachine, url: str, data: bytes) -> None:
        """Upload data to the blob store. A fault may truncate or corrupt the data."""
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


class AgentBase:
    """The state of a simulated agent that its training and its checkpoint uploads both use."""

    def __init__(
        self, machine: SimMachine, launch: LaunchRequest, environment: AgentEnvironment, provider: SimProvider
    ) -> None:
        self.machine = machine
        self.provider = provider
        self.environment = environment
        self.record = AgentRecord(launch.name, machine.id)
        self._line = self._relay_line(launch)
        self.token = ""
        self.work: dict[str, Any] = {}
        self.grace_s = 0.0
        self.stopping: str = ""  # the outcome to report, once a stop was requested
        self.stop_message = ""
        self.rejected = False
        self.trainer_wake = SimWake(environment.loop)
        self.sender_wake = SimWake(environment.loop)

    def _relay_line(self, launch: LaunchRequest) -> RelayLine | None:
        if not launch.relay:
            return None
        environment, machine = self.environment, self.machine
        session = environment.randomness.token(8)
        return RelayLine(
            environment.relay,
            launch.relay[machine.node],
            machine.node,
            session,
            lambda: environment.loop.time() < machine.cut_off_until,
        )

    def stop(self, outcome: str) -> None:
        sternness = ["", "stopped", "timeout", "cancelled", "lease_lost"]
        if sternness.index(outcome) > sternness.index(self.stopping):
            self.stopping = outcome
            if outcome == "cancelled":
                self.provider.maybe_interrupt(self.machine, "cancelling", 4.0)
            self.trainer_wake.set("stop")

    def add_frame(self, **content: Any) -> None:
        self.record.frames.append(SimFrame(len(self.record.frames) + 1, **content))
        self.sender_wake.set("")

    def key(self, process: ControlProcess) -> Any:
        return process.agent_service.authenticate(self.token)

    def now(self) -> float:
        """Return the time of the machine's clock, which stops while the machine is paused."""
        return self.environment.loop.time() - self.machine.frozen_s

    async def call(self, invoke: Callable[[ControlProcess], Awaitable[T]]) -> T:
        try:
            if self._line is not None:
                answer = await self._line.call(invoke)
            else:
                answer = await self.environment.call(self.machine, invoke)
        except AnygpuError:
            await self.wait_while_paused()
            raise
        await self.wait_while_paused()
        return answer

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(seconds, 0.001))
        await self.wait_while_paused()

    async def wait_while_paused(self) -> None:
        if self.environment.loop.time() < self.machine.paused_until:
            await asyncio.sleep(self.machine.paused_until - self.environment.loop.time())
