"""What gc deletes, and what it never does."""

import pytest

from anygpu.errors import BlobMissing
from anygpu.store.blobs.checkpoints import Checkpoints
from anygpu.store.blobs.keys import UploadOwner
from anygpu.store.blobs.sweep import DAY_MS, BlobSweepResult, sweep_blobs
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
    assert await sweep_blobs(blobs, [], now_ms=START_MS + DAY_MS) == BlobSweepResult()
    swept = await sweep_blobs(blobs, [], now_ms=LATER_MS)
    assert (swept.chunks, swept.manifests, swept.count) == (2, 1, 3)
    assert swept.size > 6
    assert await keys(blobs, "") == []


async def test_a_kept_checkpoint_keeps_its_chunks_and_nothing_else(
    blobs: MemoryBlobs, checkpoints: Checkpoints
) -> None:
    old = await begin_and_upload(checkpoints, blobs, OWNER, "last.pt", b"shared", b"old", step=1)
    new = await begin_and_upload(checkpoints, blobs, OWNER, "last.pt", b"shared", b"new", step=2)
    swept = await sweep_blobs(blobs, [OWNER.manifest_key(new.id)], now_ms=LATER_MS)
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
    swept = await sweep_blobs(blobs, [], now_ms=LATER_MS)
    assert (swept.chunks, swept.manifests) == (0, 1)
    assert await blobs.get(OWNER.incoming_key(digest(b"shared"))) == b"shared"


async def test_a_kept_manifest_that_cannot_be_read_keeps_its_whole_attempt(
    blobs: MemoryBlobs, checkpoints: Checkpoints
) -> None:
    begun = await begin_and_upload(checkpoints, blobs, OWNER, "last.pt", b"one")
    other = UploadOwner(organisation="lab", job_id=OWNER.job_id, attempt=11)
    await begin_and_upload(checkpoints, blobs, other, "last.pt", b"one")
    await blobs.put(OWNER.manifest_key(begun.id), b"damaged")
    swept = await sweep_blobs(blobs, [OWNER.manifest_key(begun.id)], now_ms=LATER_MS)
    assert (swept.chunks, swept.manifests) == (1, 1)
    assert await blobs.head(OWNER.incoming_key(digest(b"one"))) is not None


async def test_a_dry_run_counts_and_deletes_nothing(blobs: MemoryBlobs, checkpoints: Checkpoints) -> None:
    await begin_and_upload(checkpoints, blobs, OWNER, "last.pt", b"one")
    before = await keys(blobs, "")
    planned = await sweep_blobs(blobs, [], now_ms=LATER_MS, dry_run=True)
    assert await keys(blobs, "") == before
    assert await sweep_blobs(blobs, [], now_ms=LATER_MS) == planned


async def test_working_directories_go_unless_a_job_needs_them(blobs: MemoryBlobs) -> None:
    uploads = Uploads(blobs)
    for archive in (b"kept", b"gone"):
        await uploads.save("lab", digest(archive), pieces(archive), limit=10)
    swept = await sweep_blobs(blobs, [uploads.key("lab", digest(b"kept"))], now_ms=LATER_MS)
    assert (swept.uploads, swept.size) == (1, 4)
    assert await uploads.has("lab", digest(b"kept"))


async def test_one_organisations_sweep_leaves_the_others_alone(
    blobs: MemoryBlobs, checkpoints: Checkpoints
) -> None:
    stranger = UploadOwner(organisation="lab2", job_id=OWNER.job_id, attempt=1)
    for owner in (OWNER, stranger):
        await begin_and_upload(checkpoints, blobs, owner, "last.pt", b"one")
    await sweep_blobs(blobs, [], now_ms=LATER_MS, organisation="lab")
    assert {key.split("/")[1] for key in await keys(blobs, "")} == {"lab2"}


async def test_blobs_of_other_kinds_are_never_touched(blobs: MemoryBlobs) -> None:
    others = [
        "org/lab/jobs/1/plans/1.json",
        "org/lab/datasets/mnist",
        "elsewhere/chunks/x",
        "org/lab/uploads/x",
    ]
    for key in others:
        await blobs.put(key, b"x")
    assert (await sweep_blobs(blobs, [], now_ms=LATER_MS * 2)).count == 0
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
    swept = await sweep_blobs(blobs, [kept], now_ms=LATER_MS)
    assert (swept.plans, swept.count) == (1, 1)
    assert await plans.read(kept) == {"strategy": "cheapest"}
    with pytest.raises(BlobMissing):
        await plans.read(other)
