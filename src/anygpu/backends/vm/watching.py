"""Lists for as long as something of ours lives: often while anything is in doubt, seldom else, at once when asked."""

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from typing import Final

from anygpu.backends.vm.attempt import VmAttempt
from anygpu.backends.vm.listing import Listing
from anygpu.backends.vm.timing import VmTiming

NEVER: Final = float("inf")


class Watch:
    """Keeps the listing fresh, so that a look costs nothing and a change is seen without being asked for."""

    def __init__(
        self, listing: Listing, attempts: Callable[[], Iterable[VmAttempt]], timing: VmTiming
    ) -> None:
        self._listing = listing
        self._attempts = attempts
        self._timing = timing
        self._nudged = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def nudge(self) -> None:
        """Something may have changed: list now."""
        self._nudged.set()
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    def begin(self) -> None:
        """There is something to watch; nothing needs to be listed for that now."""
        if self._task is None:
            self.nudge()

    async def _run(self) -> None:
        clock, failed = asyncio.get_running_loop(), 0
        while True:
            self._nudged.clear()
            try:
                await self._listing.newer_than(clock.time())
                failed = 0
            except Exception:  # noqa: BLE001  whoever looks is told; here only the pace follows from it
                failed += 1
            backoff_s = min(self._timing.hurry_s * (2**failed - 1), self._timing.calm_s)
            await asyncio.sleep(backoff_s)
            self._calm_down()
            await self._until_due()

    def _calm_down(self) -> None:
        """Who nudged while the last listing was made may have got the answer by it."""
        latest = self._listing.latest
        if latest is not None and not any(each.asks_after(latest.began_at) for each in self._attempts()):
            self._nudged.clear()

    async def _until_due(self) -> None:
        """The next listing is due after a pause that may become shorter meanwhile, or when someone nudges."""
        pause_s = self.pause_s(asyncio.get_running_loop().time())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if pause_s == NEVER else pause_s):
                await self._nudged.wait()

    def pause_s(self, now: float) -> float:
        return min((self._pause_for(attempt, now) for attempt in self._attempts()), default=NEVER)

    def _pause_for(self, attempt: VmAttempt, now: float) -> float:
        if attempt.over(now):
            return NEVER
        if not attempt.in_doubt:
            return self._timing.calm_s
        fresh = now - attempt.stirred_at < self._timing.doubt_s
        return self._timing.hurry_s if fresh else self._timing.doubt_every_s

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
