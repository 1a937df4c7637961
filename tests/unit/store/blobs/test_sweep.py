"""What gc deletes, and what it never does."""

import pytest

from anygpu.errors import BlobMissing
from anygpu.store.blobs.checkpoints import Checkpoints
from anygpu.store.blobs.keys import UploadOwner
from anygpu.store.blobs.sweep import DAY_MS, BlobSweepResult, References, SweepPolicy, sweep_blobs
from anygpu.store.blobs.uploads import Plans, Uploads
from anygpu.testing.contracts.blobs import keys, pieces
from anygpu.testing.memory.blobs import MemoryBlobs
from anygpu.testing.samples.manifests import OWNER, begin_and_upload, digest

START_MS = 1_763_240_000_000
LATER_MS = START_MS + DAY_MS + 1


class Now:
    ms = START_MS

    def __call__(self) -> int:
        return self.ms


@pytest.fixture
def now() -> Now:
    return Now()


@pytest.fixture
def blobs(now: Now) -> MemoryBlobs:
    return MemoryBlobs(now)


@pytest.fixture
def checkpoints(blobs: MemoryBlobs) -> Checkpoints:
    return Checkpoints(blobs)


async def test_what_nothing_refers_to_goes_after_a_day(blobs: MemoryBlobs, checkpoints: Checkpoints) -> None:
    await begin_and_upload(checkpoints, blobs, OWNER, "last.pt", b"one", b"two")
    assert await sweep_blobs(blobs, References(), now_ms=START_MS + DAY_MS) == BlobSweepResult()
    swept = await sweep_blobs(blobs, References(), now_ms=LATER_MS)
    assert (swept.chunks, swept.manifests, swept.count) == (2, 1, 3)
    assert swept.size > 6
    assert await keys(blobs, "org") == []


async def test_a_kept_checkpoint_keeps_its_chunks_and_nothing_else(
    blobs: MemoryBlobs, checkpoints: Checkpoints
) -> None:
    old = await begin_and_upload(checkpoints, blobs, OWNER, "last.pt", b"shared", b"old", step=1)
    new = await begin_and_upload(checkpoints, blobs, OWNER, "last.pt", b"shared", b"new", step=2)
    swept = await sweep_blobs(blobs, References(keys=[OWNER.manifest_key(new.id)]), now_ms=LATER_MS)
    assert (swept.chunks, swept.manifests) == (1, 1)
    assert await checkpoints.is_intact(OWNER.manifest_key(new.id))
    assert await blobs.head(OWNER.manifest_key(old.id)) is None
    assert await blobs.head(OWNER.chunk_key(digest(b"old"))) is None


async def test_an_old_chunk_that_a_new_upload_needs_is_kept(
    blobs: MemoryBlobs, checkpoints: Checkpoints, now: Now
) -> None:
    await begin_and_upload(checkpoints, blobs, OWNER, "last.pt", b"shared", step=1)
    now.ms += DAY_MS // 3
    await checkpoints.begin(OWNER, {**_manifest(b"shared"), "step": 2})
    now.ms = LATER_MS
    swept = await sweep_blobs(blobs, References(), now_ms=LATER_MS)
    assert (swept.chunks, swept.manifests) == (0, 1)
    assert await blobs.get(OWNER.incoming_key(digest(b"shared"))) == b"shared"


async def test_a_kept_manifest_that_cannot_be_read_keeps_its_whole_attempt(
    blobs: MemoryBlobs, checkpoints: Checkpoints
) -> None:
    begun = await begin_and_upload(checkpoints, blobs, OWNER, "last.pt", b"one")
    other = UploadOwner(organisation="lab", job_id=OWNER.job_id, attempt=11)
    await begin_and_upload(checkpoints, blobs, other, "last.pt", b"one")
    await blobs.put(OWNER.manifest_key(begun.id), b"damaged")
    swept = await sweep_blobs(blobs, References(keys=[OWNER.manifest_key(begun.id)]), now_ms=LATER_MS)
    assert (swept.chunks, swept.manifests) == (1, 1)
    assert await blobs.head(OWNER.incoming_key(digest(b"one"))) is not None


async def test_a_dry_run_counts_and_deletes_nothing(blobs: MemoryBlobs, checkpoints: Checkpoints) -> None:
    await begin_and_upload(checkpoints, blobs, OWNER, "last.pt", b"one")
    before = await keys(blobs, "")
    planned = await sweep_blobs(blobs, References(), now_ms=LATER_MS, dry_run=True)
    assert await keys(blobs, "") == before
    assert await sweep_blobs(blobs, References(), now_ms=LATER_MS) == planned


async def test_working_directories_go_unless_a_job_needs_them(blobs: MemoryBlobs) -> None:
    uploads = Uploads(blobs)
    for archive in (b"kept", b"gone"):
        await uploads.save("lab", digest(archive), pieces(archive), limit=10)
    swept = await sweep_blobs(blobs, References(keys=[uploads.key("lab", digest(b"kept"))]), now_ms=LATER_MS)
    assert (swept.uploads, swept.size) == (1, 4)
    assert await uploads.has("lab", digest(b"kept"))


async def test_blobs_of_other_kinds_are_never_touched(blobs: MemoryBlobs) -> None:
    others = [
        "org/lab/jobs/1/plans/1.json",
        "org/lab/datasets/mnist",
        "elsewhere/chunks/x",
        "org/lab/uploads/x",
    ]
    for key in others:
        await blobs.put(key, b"x")
    assert (await sweep_blobs(blobs, References(), now_ms=LATER_MS * 2)).count == 0
    assert await keys(blobs, "") == sorted(others)


def _manifest(chunk: bytes) -> dict[str, object]:
    file = {"path": "last.pt", "size": len(chunk), "sha256": digest(chunk)}
    return {"files": [{**file, "chunks": [{"size": len(chunk), "sha256": digest(chunk)}]}]}


async def test_plans_go_unless_a_kept_job_has_them(blobs: MemoryBlobs) -> None:
    plans = Plans(blobs)
    kept = await plans.put("lab", {"strategy": "cheapest"})
    other = await plans.put("lab", {"strategy": "fastest"})
    assert kept != other
    assert await plans.put("lab", {"strategy": "cheapest"}) == kept
    swept = await sweep_blobs(blobs, References(keys=[kept]), now_ms=LATER_MS)
    assert (swept.plans, swept.count) == (1, 1)
    assert await plans.read(kept) == {"strategy": "cheapest"}
    with pytest.raises(BlobMissing):
        await plans.read(other)


async def swept_at(blobs: MemoryBlobs, now: Now, ms: int, *needed: str) -> BlobSweepResult:
    now.ms = ms
    return await sweep_blobs(blobs, References(keys=needed), now_ms=ms)


async def test_removed_blobs_stay_in_the_trash_for_a_week(blobs: MemoryBlobs, now: Now) -> None:
    plan = await Plans(blobs).put("lab", {"strategy": "cheapest"})
    assert (await swept_at(blobs, now, LATER_MS)).plans == 1
    (trashed,) = await keys(blobs, "")
    assert trashed == f"trash/20251116T205320Z/{plan}"
    removed_at_ms = LATER_MS - LATER_MS % 1000  # the key has whole seconds
    before = await swept_at(blobs, now, removed_at_ms + 7 * DAY_MS - 1)
    assert (before.purged, await keys(blobs, "")) == (0, [trashed])
    after = await swept_at(blobs, now, removed_at_ms + 7 * DAY_MS)
    assert (after.purged, after.purged_size > 0, after.count) == (1, True, 0)
    assert await keys(blobs, "") == []


async def test_a_checkpoint_that_is_needed_again_is_restored_with_its_chunks(
    blobs: MemoryBlobs, checkpoints: Checkpoints, now: Now
) -> None:
    begun = await begin_and_upload(checkpoints, blobs, OWNER, "last.pt", b"one", b"two")
    await checkpoints.verify(OWNER, begun.id)
    manifest = OWNER.manifest_key(begun.id)
    assert (await swept_at(blobs, now, LATER_MS)).count == 3
    assert not await checkpoints.is_intact(manifest)
    result = await swept_at(blobs, now, LATER_MS + DAY_MS, manifest)
    assert (result.restored, result.count, result.purged) == (3, 0, 0)
    assert await checkpoints.is_intact(manifest)
    assert await keys(blobs, "trash") == []
    assert (await swept_at(blobs, now, LATER_MS + 30 * DAY_MS, manifest)) == BlobSweepResult()


async def test_the_last_of_several_removed_versions_is_restored_and_never_replaces_a_new_one(
    blobs: MemoryBlobs, now: Now
) -> None:
    plans = Plans(blobs)
    for day in (0, 2):
        now.ms = START_MS + day * DAY_MS
        key = await plans.put("lab", {"strategy": "cheapest"})
        await swept_at(blobs, now, now.ms + DAY_MS + 1)
    assert len(await keys(blobs, "trash")) == 2
    assert (await swept_at(blobs, now, now.ms, key)).restored == 1
    (left,) = await keys(blobs, "trash")
    assert left.startswith("trash/20251116")
    assert (await swept_at(blobs, now, now.ms + 1, key)).restored == 0
    assert await plans.read(key) == {"strategy": "cheapest"}


async def test_a_move_to_the_trash_that_was_interrupted_is_completed(blobs: MemoryBlobs, now: Now) -> None:
    plan = await Plans(blobs).put("lab", {"strategy": "cheapest"})
    await blobs.put(f"trash/20251115T205320Z/{plan}", await blobs.get(plan))  # copied, not yet deleted
    assert (await swept_at(blobs, now, LATER_MS)).plans == 1
    assert await keys(blobs, "org") == []
    assert (await swept_at(blobs, now, LATER_MS, plan)).restored == 1


async def test_an_unusual_share_is_removed_only_by_force(blobs: MemoryBlobs) -> None:
    plans = [await Plans(blobs).put("lab", {"number": number}) for number in range(10)]
    policy = SweepPolicy(max_share=0.5, share_from=10)
    for needed, is_refused in ((plans[:4], True), (plans[:5], False)):
        for dry_run in (True, False):
            result = await sweep_blobs(
                blobs, References(keys=needed), now_ms=LATER_MS, policy=policy, dry_run=dry_run
            )
            assert bool(result.refused) is is_refused
            assert result.count == (0 if is_refused else 5)
    for plan in plans[:5]:
        await blobs.move(plan, f"elsewhere/{plan}")
    assert (await sweep_blobs(blobs, References(), now_ms=LATER_MS, policy=policy)).refused == ""


async def test_the_refusal_says_how_many_and_what_to_do(blobs: MemoryBlobs) -> None:
    for number in range(152):
        await Plans(blobs).put("lab", {"number": number})
    result = await sweep_blobs(blobs, References(), now_ms=LATER_MS)
    assert result.refused.startswith("152 of 152 files would be removed")
    assert "anygpu gc --force" in result.refused
    assert len(await keys(blobs, "org")) == 152
    forced = await sweep_blobs(blobs, References(), now_ms=LATER_MS, force=True)
    assert (forced.plans, len(await keys(blobs, "trash"))) == (152, 152)


async def test_everything_in_a_folder_that_is_needed_is_kept(blobs: MemoryBlobs) -> None:
    kept = await Plans(blobs).put("lab", {"number": 1})
    gone = await Plans(blobs).put("lab2", {"number": 1})
    result = await sweep_blobs(blobs, References(folders=["org/lab/plans"]), now_ms=LATER_MS)
    assert (result.plans, await blobs.head(gone)) == (1, None)
    assert await blobs.head(kept) is not None


async def test_the_trash_can_be_emptied_at_once(blobs: MemoryBlobs, now: Now) -> None:
    await Plans(blobs).put("lab", {"number": 1})
    result = await sweep_blobs(blobs, References(), now_ms=LATER_MS, empty_trash=True)
    assert (result.plans, result.purged) == (1, 1)
    assert await keys(blobs, "") == []


async def test_other_blobs_below_the_trash_folder_are_left_alone(blobs: MemoryBlobs) -> None:
    await blobs.put("trash/notes.txt", b"mine")
    result = await sweep_blobs(blobs, References(), now_ms=LATER_MS, empty_trash=True)
    assert (result.purged, await keys(blobs, "")) == (0, ["trash/notes.txt"])
