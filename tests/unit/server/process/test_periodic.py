"""Retention: output of old jobs, and files that nothing refers to."""

from collections.abc import AsyncIterator
from typing import Any

from anygpu.events.view import JobView
from anygpu.server.process.periodic import DAY_MS, Retention
from anygpu.testing.memory.blobs import MemoryBlobs


class Clock:
    """A clock that stands still."""

    def wall_ms(self) -> int:
        return 100 * DAY_MS


async def no_jobs(since_ms: int) -> AsyncIterator[JobView]:
    views: list[JobView] = []
    for view in views:
        yield view


async def test_a_dry_run_removes_nothing_and_counts_everything() -> None:
    asked: list[tuple[int, bool]] = []

    async def prune(before_ms: int, dry_run: bool) -> dict[str, int]:
        asked.append((before_ms, dry_run))
        return {"jobs": 3}

    blobs: Any = MemoryBlobs()
    uploads: Any = None
    clock: Any = Clock()
    retention = Retention(blobs, uploads, no_jobs, prune, clock, keep_days=30)
    assert await retention.apply(True) == {"jobs": 3, "files": 0, "bytes": 0}
    assert asked == [(70 * DAY_MS, True)]
