"""The simulator's clock: real time plus an offset that `advance` increases."""

import asyncio
import contextlib
import heapq
import itertools
import time
from collections.abc import Callable


class SimClock:
    """The clock and the timers of the simulator."""

    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        self._wall = wall
        self._offset_s = 0.0
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._count = itertools.count()
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def now_s(self) -> float:
        return self._wall() + self._offset_s

    def now_ms(self) -> int:
        return int(self.now_s() * 1000)

    def advance(self, seconds: float) -> None:
        """Move the clock forward by `seconds`, and run the timers that become due, earliest first."""
        end = self.now_s() + seconds
        while self._timers and self._timers[0][0] <= end:
            self._offset_s += max(0.0, self._timers[0][0] - self.now_s())
            self.run_due()
        self._offset_s += max(0.0, end - self.now_s())
        self._changed.set()

    def call_at(self, when_s: float, what: Callable[[], None]) -> None:
        heapq.heappush(self._timers, (when_s, next(self._count), what))
        self._changed.set()

    def call_after(self, delay_s: float, what: Callable[[], None]) -> None:
        self.call_at(self.now_s() + delay_s, what)

    async def sleep(self, delay_s: float) -> None:
        done = asyncio.Event()
        self.call_after(delay_s, done.set)
        await done.wait()

    def run_due(self) -> None:
        while self._timers and self._timers[0][0] <= self.now_s():
            heapq.heappop(self._timers)[2]()

    async def run(self) -> None:
        """Run timers when they become due, until cancelled."""
        while True:
            self._changed.clear()
            self.run_due()
            wait_s = self._timers[0][0] - self.now_s() if self._timers else None
            with contextlib.suppress(TimeoutError):
                # Unlike wait_for, asyncio.timeout starts the wait even if the timer is due already.
                async with asyncio.timeout(wait_s):
                    await self._changed.wait()

    def start(self) -> None:
        self._task = asyncio.create_task(self.run(), name="sim-clock")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
