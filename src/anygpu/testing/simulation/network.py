"""The simulated network: requests are lost, late or duplicated, and responses are dropped."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from anygpu.errors import AnygpuError, ServerUnreachable
from anygpu.testing.simulation.control_process import ControlProcess
from anygpu.testing.simulation.faults import Fault, FaultInjector
from anygpu.testing.simulation.virtual_time import VirtualLoop

T = TypeVar("T")
Invoke = Callable[[ControlProcess], Awaitable[Any]]
TIMEOUT_S = 10.0


@dataclass(eq=False, slots=True)
class SimConnection:
    """The connection of one agent or client to the control processes."""

    name: str
    is_cut_off: Callable[[], bool] = lambda: False
    sent: int = 0
    newest: int = 0


class SimNetwork:
    """The network, which delivers each call to one of the running control processes, chosen at random."""

    def __init__(
        self,
        loop: VirtualLoop,
        faults: FaultInjector,
        processes: Callable[[], Sequence[ControlProcess]],
        problem: Callable[[str], None],
    ) -> None:
        self._loop = loop
        self._faults = faults
        self._processes = processes
        self._problem = problem

    async def call(self, line: SimConnection, invoke: Callable[[ControlProcess], Awaitable[T]]) -> T:
        """Call a control process with `invoke`. Return its response, or raise the error that it raised.

        If there is no response in time, raise ServerUnreachable; the call may or may not have been executed.
        """
        answer = self._loop.create_future()
        timer = self._loop.call_later(TIMEOUT_S, _fail, answer, ServerUnreachable("no answer"))
        line.sent += 1
        self._send(line, line.sent, invoke, answer)
        try:
            return cast(T, await answer)
        finally:
            timer.cancel()

    def _send(self, line: SimConnection, number: int, invoke: Invoke, answer: "asyncio.Future[Any]") -> None:
        if line.is_cut_off() or self._faults.occurs(Fault.REQUEST_LOST):
            return
        late = self._faults.occurs(Fault.LATE)
        delay_s = self._faults.uniform(3, 45) if late else self._faults.uniform(0.005, 0.2)
        self._loop.call_later(delay_s, self._arrive, line, number, invoke, answer)
        if self._faults.occurs(Fault.DUPLICATED):
            again_s = delay_s + self._faults.random.choice([0.01, 0.5, 5, 30])
            self._loop.call_later(again_s, self._arrive, line, number, invoke, self._loop.create_future())

    def _arrive(
        self, line: SimConnection, number: int, invoke: Invoke, answer: "asyncio.Future[Any]"
    ) -> None:
        if number < line.newest:
            self._faults.record(Fault.REORDERED, line.name)
        line.newest = max(line.newest, number)
        alive = self._processes()
        if not alive:
            self._loop.call_later(0.5, _fail, answer, ServerUnreachable("connection refused"))
        else:
            process = self._faults.random.choice(alive)
            self._loop.create_task(self._serve(process, line, invoke, answer))

    async def _serve(
        self, process: ControlProcess, line: SimConnection, invoke: Invoke, answer: "asyncio.Future[Any]"
    ) -> None:
        settle: Callable[..., None] = _fail
        value: Any
        try:
            value = await invoke(process)
            settle = _succeed
        except AnygpuError as error:
            value = error
        except Exception as error:  # noqa: BLE001  a server would answer 500, and that is a bug
            self._problem(f"{process.name} answered {line.name} with {error!r}")
            value = ServerUnreachable("500")
        if process.life.alive and not line.is_cut_off() and not self._faults.occurs(Fault.RESPONSE_DROPPED):
            self._loop.call_later(self._faults.uniform(0.005, 0.2), settle, answer, value)


def _succeed(answer: "asyncio.Future[Any]", value: Any) -> None:
    if not answer.done():
        answer.set_result(value)


def _fail(answer: "asyncio.Future[Any]", error: BaseException) -> None:
    if not answer.done():
        answer.set_exception(error)
        answer.exception()  # mark the exception as retrieved, because the caller may be dead
