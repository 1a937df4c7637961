"""A query of an engine that many callers need at the same time, such as for its queue or its nodes."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")
REFRESH_DELAY_S = 1.0  # a query in the background must not slow down the job that is just being submitted


class SharedQuery(Generic[T]):
    """Runs a query at most once at a time, and shares its result or its failure among all callers."""

    def __init__(self, fetch: Callable[[], Awaitable[T]]) -> None:
        self._fetch = fetch
        self._task: asyncio.Task[T] | None = None
        self._task_started_at = float("-inf")
        self._last: tuple[float, T] | None = None  # when the query of the last result began, and the result
        self.count = 0

    @property
    def result_at(self) -> float:
        """When the query of the last result began, by the monotonic clock."""
        return self._last[0] if self._last is not None else float("-inf")

    async def get(self, newer_than: float) -> T:
        """Return a result that was requested after `newer_than` (monotonic clock)."""
        if self._last is not None and self._last[0] > newer_than:
            return self._last[1]
        if self._task is not None and not self._task.done() and self._task_started_at <= newer_than:
            await asyncio.wait([self._task])
        return await asyncio.shield(self._start())

    async def get_recent(self, fresh_s: float, stale_s: float) -> T:
        """Return the last result at once if it is at most `stale_s` old; ask again if it is older than `fresh_s`."""
        now = time.monotonic()
        if self._last is None or self._last[0] <= now - stale_s:
            return await self.get(now - fresh_s)
        if self._last[0] <= now - fresh_s:
            self._start(after_s=REFRESH_DELAY_S)
        return self._last[1]

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def _start(self, after_s: float = 0) -> "asyncio.Task[T]":
        if self._task is None or self._task.done():
            self._task_started_at = time.monotonic()
            self._task = asyncio.create_task(self._run(self._task_started_at, after_s))
            self._task.add_done_callback(retrieve_exception)
        return self._task

    async def _run(self, began_at: float, after_s: float) -> T:
        if after_s:
            await asyncio.sleep(after_s)
        self.count += 1
        result = await self._fetch()
        self._last = began_at, result
        return result


def retrieve_exception(task: "asyncio.Task[T]") -> None:
    """Mark the task's exception as retrieved: every caller gets it, but a caller may have been cancelled."""
    if not task.cancelled():
        task.exception()
