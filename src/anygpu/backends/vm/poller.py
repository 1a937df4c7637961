"""List the provider's machines periodically: often while a machine changes, rarely otherwise.

A listing can also be requested at once.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from typing import Final

from anygpu.backends.vm.attempt import VmAttempt
from anygpu.backends.vm.machines import MachineListing
from anygpu.backends.vm.options import VmTiming

NEVER: Final = float("inf")


class ListingPoller:
    """Keeps the list of the provider's machines up to date while there are attempts.

    So checking an attempt needs no call to the provider, and changes are noticed.
    """

    def __init__(
        self, listing: MachineListing, attempts: Callable[[], Iterable[VmAttempt]], timing: VmTiming
    ) -> None:
        self._listing = listing
        self._attempts = attempts
        self._timing = timing
        self._requested = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def poll_now(self) -> None:
        """List the machines as soon as possible, because something may have changed."""
        self._requested.set()
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    def start(self) -> None:
        """Start to list the machines periodically, unless that was started before."""
        if self._task is None:
            self.poll_now()

    async def _run(self) -> None:
        clock, failed = asyncio.get_running_loop(), 0
        while True:
            self._requested.clear()
            try:
                await self._listing.newer_than(clock.time())
                failed = 0
            except Exception:  # noqa: BLE001  callers of `newer_than` get the error; here it slows the polling
                failed += 1
            backoff_s = min(self._timing.poll_fast_s * (2**failed - 1), self._timing.poll_idle_s)
            await asyncio.sleep(backoff_s)
            self._skip_if_answered()
            await self._wait_until_due()

    def _skip_if_answered(self) -> None:
        """Cancel the requested listing if the last one is recent enough for every attempt."""
        latest = self._listing.latest
        if latest is not None and not any(
            each.needs_listing_after(latest.began_at) for each in self._attempts()
        ):
            self._requested.clear()

    async def _wait_until_due(self) -> None:
        """Wait until the next listing is due or requested."""
        pause_s = self.pause_s(asyncio.get_running_loop().time())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if pause_s == NEVER else pause_s):
                await self._requested.wait()

    def pause_s(self, now: float) -> float:
        return min((self._pause_for(attempt, now) for attempt in self._attempts()), default=NEVER)

    def _pause_for(self, attempt: VmAttempt, now: float) -> float:
        if attempt.is_over(now):
            return NEVER
        if not attempt.is_changing:
            return self._timing.poll_idle_s
        fresh = now - attempt.changed_at < self._timing.poll_fast_for_s
        return self._timing.poll_fast_s if fresh else self._timing.poll_medium_s

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
