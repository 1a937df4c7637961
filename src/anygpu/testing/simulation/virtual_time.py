"""An event loop and a clock in virtual time, seeded randomness, and wake-up signals for that loop."""

import asyncio
import heapq
import random
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from collections.abc import Set as AbstractSet
from contextvars import Context
from typing import Any, TypeVar

T = TypeVar("T")
START_MS = 1_763_000_000_000


class Deadlock(RuntimeError):
    """The simulation cannot continue, because every task waits and no timer is set."""


_Loop: Any = asyncio.AbstractEventLoop  # of its eighty methods, the simulation needs a dozen


class VirtualCall:
    """A scheduled callback. It has less overhead than asyncio's handle, because a history needs thousands."""

    __slots__ = ("args", "callback", "context", "is_cancelled")

    def __init__(
        self, callback: Callable[..., object], args: tuple[Any, ...], context: Context | None
    ) -> None:
        self.callback = callback
        self.args = args
        self.context = context
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True

    def cancelled(self) -> bool:
        return self.is_cancelled


class VirtualLoop(_Loop):  # type: ignore[misc]
    """An event loop without threads and sockets. When no task is ready, time jumps to the next timer."""

    def __init__(self) -> None:
        self._now = 0.0
        self._ready: deque[VirtualCall] = deque()
        self._timers: list[tuple[float, int, VirtualCall]] = []
        self._made = 0
        self._running = False
        self.steps = 0
        self.tasks: list[asyncio.Task[Any]] = []  # kept, so that no task is garbage-collected
        self.problems: list[str] = []

    def time(self) -> float:
        return self._now

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> VirtualCall:
        call = VirtualCall(callback, args, context)
        self._ready.append(call)
        return call

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> VirtualCall:
        return self.call_at(self._now + max(0.0, delay), callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> VirtualCall:
        call = VirtualCall(callback, args, context)
        self._made += 1
        heapq.heappush(self._timers, (when, self._made, call))
        return call

    def create_future(self) -> "asyncio.Future[Any]":
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, **options: Any) -> "asyncio.Task[Any]":
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, **options)
        self.tasks.append(task)
        return task

    def run_until_complete(self, future: Awaitable[T]) -> T:
        task = asyncio.ensure_future(future, loop=self)
        asyncio._set_running_loop(self)
        self._running = True
        try:
            while not task.done():
                self._step()
        finally:
            self._running = False
            asyncio._set_running_loop(None)
        return task.result()

    def _step(self) -> None:
        call = self._ready.popleft() if self._ready else self._next_timer()
        if call.is_cancelled:
            return
        self.steps += 1
        try:
            if call.context is None:
                call.callback(*call.args)
            else:
                call.context.run(call.callback, *call.args)
        except Exception as error:  # noqa: BLE001  like any event loop, report the error and continue
            self.call_exception_handler({"message": "a callback failed", "exception": error})

    def _next_timer(self) -> VirtualCall:
        if not self._timers:
            raise Deadlock(f"deadlock at {self._now:.3f} s: every task waits, and no timer is set")
        when, _, call = heapq.heappop(self._timers)
        if not call.is_cancelled:
            self._now = max(self._now, when)
        return call

    def finish(self) -> None:
        """Cancel all remaining tasks."""
        for _ in range(20):
            pending = [task for task in self.tasks if not task.done()]
            if not pending:
                break
            for task in pending:
                task.cancel()
            self.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
        self.tasks.clear()
        self._timers.clear()

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self.problems.append(f"{context.get('message', '')}: {error!r}")

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return False


class VirtualClock:
    """A clock in virtual time. The wall clock may jump; the monotonic clock does not."""

    def __init__(self, loop: VirtualLoop, start_ms: int = START_MS) -> None:
        self._loop = loop
        self._start_ms = start_ms
        self.jumped_ms = 0

    def wall_ms(self) -> int:
        return self._start_ms + self.jumped_ms + round(self._loop.time() * 1000)

    def monotonic(self) -> float:
        return self._loop.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class SeededRandomness:
    """Random tokens and numbers that depend only on the seed."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    def token(self, nbytes: int) -> str:
        return self._random.randbytes(nbytes).hex()

    def uniform(self, low: float, high: float) -> float:
        return self._random.uniform(low, high)


class SimWake:
    """The wake-up signal of one simulated process."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self._woken: set[str] = set()
        self._waiter: asyncio.Future[None] | None = None

    def set(self, job_id: str) -> None:
        self._woken.add(job_id)
        self._wake_waiter()

    async def wait(self, timeout_s: float) -> AbstractSet[str]:
        if not self._woken:
            self._waiter = self._loop.create_future()
            timer = self._loop.call_later(timeout_s, self._wake_waiter)
            await self._waiter
            timer.cancel()
        woken, self._woken = self._woken, set()
        return woken

    def _wake_waiter(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def run(main: Callable[[VirtualLoop], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine function in virtual time until it returns."""
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(main(loop))
    finally:
        loop.finish()
