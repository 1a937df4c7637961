"""Retention: output of old jobs, and files that nothing refers to."""

import hashlib
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.control.jobs_in_states import training, view

from anygpu.events.view import JobView
from anygpu.server.process.periodic import Retention, RetentionOptions
from anygpu.store.blobs.snapshots import SnapshotLimits, Snapshots
from anygpu.store.blobs.sweep import DAY_MS
from anygpu.store.blobs.uploads import Plans, Uploads
from anygpu.store.identity import NO_JOBS, OTHER_ID, StoreIdentity
from anygpu.store.sql.engine.inline import InlineDatabase
from anygpu.store.sql.journal import SqlJournal
from anygpu.testing.contracts.blobs import keys
from anygpu.testing.contracts.journal import submit
from anygpu.testing.memory.blobs import MemoryBlobs
from anygpu.testing.samples.jobs import job_id, job_spec

NOTHING = {"files": 0, "bytes": 0, "restored_files": 0, "purged_files": 0, "purged_bytes": 0, "refused": None}


class Clock:
    """A clock that stands still."""

    def wall_ms(self) -> int:
        return 100 * DAY_MS


class Stores:
    """A database and a blob store, and the jobs that retention keeps."""

    def __init__(self, blobs: MemoryBlobs) -> None:
        self.blobs = blobs
        self.uploads = Uploads(blobs)
        self.snapshots = Snapshots(blobs, self.uploads, SnapshotLimits(max_bytes=1000, max_files=10))
        self.database = InlineDatabase()
        self.jobs: list[JobView] = []
        self.pruned: list[tuple[int, bool]] = []

    def retention(self) -> Retention:
        clock: Any = Clock()
        identity = StoreIdentity(self.database, self.blobs)
        return Retention(
            self.blobs,
            self.uploads,
            self.snapshots,
            identity,
            self._kept,
            self._prune,
            clock,
            keep_days=30,
        )

    async def put(self, data: bytes) -> str:
        sha256 = hashlib.sha256(data).hexdigest()
        await self.blobs.put(self.uploads.key("lab", sha256), data)
        return sha256

    async def _kept(self, since_ms: int) -> AsyncIterator[JobView]:
        for each in self.jobs:
            yield each

    async def _prune(self, before_ms: int, dry_run: bool) -> dict[str, int]:
        self.pruned.append((before_ms, dry_run))
        return {"jobs": 3}


@pytest.fixture
def stores() -> Stores:
    return Stores(MemoryBlobs(lambda: 0))


async def test_a_dry_run_removes_nothing_and_counts_everything(stores: Stores) -> None:
    assert await stores.retention().apply(RetentionOptions(dry_run=True)) == {"jobs": 3, **NOTHING}
    assert stores.pruned == [(70 * DAY_MS, True)]


async def test_files_of_another_database_are_not_removed_until_it_adopts_them(stores: Stores) -> None:
    await StoreIdentity(InlineDatabase(), stores.blobs).check()
    plan = await Plans(stores.blobs).put("lab", {"number": 1})
    await submit(SqlJournal(stores.database), 1)
    retention = stores.retention()
    for options in (
        RetentionOptions(),
        RetentionOptions(force=True),
        RetentionOptions(dry_run=True, adopt=True),
    ):
        result = await retention.apply(options)
        assert (result["refused"], result["files"], retention.refusal) == (OTHER_ID, 0, OTHER_ID)
    assert await stores.blobs.head(plan) is not None
    result = await retention.apply(RetentionOptions(adopt=True))
    assert (result["refused"], result["files"], retention.refusal) == (None, 1, "")
    assert await keys(stores.blobs, "org") == []


async def test_without_jobs_files_are_removed_only_by_force(stores: Stores) -> None:
    retention = stores.retention()
    await retention.check_start()
    await Plans(stores.blobs).put("lab", {"number": 1})
    assert (await retention.apply(RetentionOptions()))["refused"] == NO_JOBS
    assert (await retention.apply(RetentionOptions(force=True)))["files"] == 1


async def test_everything_a_damaged_job_may_refer_to_is_kept(stores: Stores) -> None:
    submitted = await submit(SqlJournal(stores.database), 1)
    damaged = JobView(
        id=submitted.id,
        organisation="lab",
        project="vision",
        person="",
        name="",
        spec=job_spec(),
        submitted_at_ms=0,
        updated_at_ms=0,
        position=1,
        damaged="event 1 cannot be read",
    )
    stores.jobs = [damaged]
    chunk = f"attempts/1/chunks/{'0' * 64}"
    ours, other = f"org/lab/jobs/{submitted.id}/{chunk}", f"org/lab/jobs/{job_id(2)}/{chunk}"
    plan = await Plans(stores.blobs).put("lab", {"number": 1})
    for key in (ours, other):
        await stores.blobs.put(key, b"")
    assert (await stores.retention().apply(RetentionOptions()))["files"] == 1
    assert await keys(stores.blobs, "org") == sorted([ours, plan])


async def snapshot_job(stores: Stores, content: str) -> JobView:
    """A job with a snapshot of one file."""
    file = {"path": "train.py", "size": 5, "sha256": content}
    manifest = await stores.put(json.dumps({"files": [file]}).encode())
    return replace(view(*training(), workdir={"path": "/a", "manifest": manifest}), organisation="lab")


async def test_the_contents_of_a_jobs_snapshot_are_kept_and_others_are_removed() -> None:
    stores = Stores(MemoryBlobs(lambda: 10 * DAY_MS))
    await submit(SqlJournal(stores.database), 1)
    train, unused = await stores.put(b"train"), await stores.put(b"unused")
    job = await snapshot_job(stores, train)
    assert job.spec.workdir is not None
    manifest = str(job.spec.workdir.manifest)
    archive = await stores.snapshots.archive("lab", manifest, now_ms=10 * DAY_MS)
    stores.jobs = [job]
    await stores.retention().apply(RetentionOptions())
    assert {key.rpartition("/")[2] for key in await keys(stores.blobs, "org")} == {train, manifest}
    assert {key.rpartition("/")[2] for key in await keys(stores.blobs, "trash")} == {unused, archive}
    assert await stores.snapshots.archive("lab", manifest, now_ms=100 * DAY_MS) == archive
    assert await stores.uploads.has("lab", archive)


async def test_a_snapshot_that_is_needed_again_is_restored_with_its_contents() -> None:
    stores = Stores(MemoryBlobs(lambda: 10 * DAY_MS))
    await submit(SqlJournal(stores.database), 1)
    job = await snapshot_job(stores, await stores.put(b"train"))
    assert (await stores.retention().apply(RetentionOptions()))["files"] == 2
    stores.jobs = [job]
    assert (await stores.retention().apply(RetentionOptions()))["restored_files"] == 2
    assert len(await keys(stores.blobs, "org")) == 2


async def test_a_damaged_list_of_a_snapshot_keeps_all_uploads() -> None:
    stores = Stores(MemoryBlobs(lambda: 10 * DAY_MS))
    await submit(SqlJournal(stores.database), 1)
    job = await snapshot_job(stores, await stores.put(b"train"))
    assert job.spec.workdir is not None
    await stores.blobs.put(stores.uploads.key("lab", str(job.spec.workdir.manifest)), b"{")
    stores.jobs = [job]
    assert (await stores.retention().apply(RetentionOptions()))["files"] == 0


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
