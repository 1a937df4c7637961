"""Retention: output of old jobs, and files that nothing refers to."""

import hashlib
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

from tests.unit.control.jobs_in_states import training, view

from anygpu.events.view import JobView
from anygpu.server.process.periodic import DAY_MS, Retention
from anygpu.store.blobs.snapshots import SnapshotLimits, Snapshots
from anygpu.store.blobs.uploads import Uploads
from anygpu.testing.memory.blobs import MemoryBlobs


class Clock:
    """A clock that stands still."""

    def wall_ms(self) -> int:
        return 100 * DAY_MS


async def no_jobs(since_ms: int) -> AsyncIterator[JobView]:
    views: list[JobView] = []
    for each in views:
        yield each


async def test_a_dry_run_removes_nothing_and_counts_everything() -> None:
    asked: list[tuple[int, bool]] = []

    async def prune(before_ms: int, dry_run: bool) -> dict[str, int]:
        asked.append((before_ms, dry_run))
        return {"jobs": 3}

    blobs: Any = MemoryBlobs()
    unused: Any = None
    clock: Any = Clock()
    retention = Retention(blobs, unused, unused, no_jobs, prune, clock, keep_days=30)
    assert await retention.apply(True) == {"jobs": 3, "files": 0, "bytes": 0}
    assert asked == [(70 * DAY_MS, True)]


async def test_the_contents_of_a_jobs_snapshot_are_kept_and_others_are_removed() -> None:
    stored_at_ms = [10 * DAY_MS]
    blobs = MemoryBlobs(lambda: stored_at_ms[0])
    uploads = Uploads(blobs)
    snapshots = Snapshots(blobs, uploads, SnapshotLimits(max_bytes=1000, max_files=10))
    contents = [b"train", b"unused"]
    hashes = [hashlib.sha256(data).hexdigest() for data in contents]
    listed = json.dumps({"files": [{"path": "train.py", "size": 5, "sha256": hashes[0]}]}).encode()
    manifest = hashlib.sha256(listed).hexdigest()
    for data in (*contents, listed):
        await blobs.put(uploads.key("lab", hashlib.sha256(data).hexdigest()), data)
    archive = await snapshots.archive("lab", manifest, now_ms=10 * DAY_MS)
    job = view(*training(), workdir={"path": "/a", "manifest": manifest})

    async def one_job(since_ms: int) -> AsyncIterator[JobView]:
        yield replace(job, organisation="lab")

    async def prune(before_ms: int, dry_run: bool) -> dict[str, int]:
        return {}

    clock: Any = Clock()
    await Retention(blobs, uploads, snapshots, one_job, prune, clock, keep_days=90).apply(False)
    left = {info.key.rpartition("/")[2] async for info in blobs.list("")}
    assert left == {hashes[0], manifest}
    assert await snapshots.archive("lab", manifest, now_ms=100 * DAY_MS) == archive
    assert await uploads.has("lab", archive)


async def test_an_old_content_is_stored_again_when_a_client_relies_on_it() -> None:
    now_ms = [10 * DAY_MS]
    blobs = MemoryBlobs(lambda: now_ms[0])
    uploads = Uploads(blobs)
    snapshots = Snapshots(blobs, uploads, SnapshotLimits(max_bytes=1000, max_files=10))
    good, bad = (hashlib.sha256(data).hexdigest() for data in (b"good", b"bad"))
    await blobs.put(uploads.key("lab", good), b"good")
    await blobs.put(uploads.key("lab", bad), b"damaged")
    now_ms[0] = 20 * DAY_MS
    assert await snapshots.missing("lab", [good, bad, good], now_ms=now_ms[0]) == [bad]
    assert await uploads.has("lab", good, since_ms=20 * DAY_MS)
    assert await snapshots.missing("other", [good], now_ms=now_ms[0]) == [good]
