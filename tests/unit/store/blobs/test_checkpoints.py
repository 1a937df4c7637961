"""Begin, upload, verify."""

import pytest

from anygpu.errors import BlobCorrupt, BlobMissing, IncompleteUpload, NotFound
from anygpu.store.blobs.checkpoints import Checkpoints
from anygpu.store.blobs.keys import UploadOwner
from anygpu.testing.memory.blobs import MemoryBlobs
from anygpu.testing.samples.manifests import (
    OWNER,
    artifact_of,
    begin_and_upload,
    digest,
    file_of,
    manifest_of,
    upload_chunks,
)

HOUR_MS = 3600 * 1000


class Now:
    ms = 1_763_240_000_000

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


async def test_begin_lists_only_the_chunks_the_server_lacks(
    checkpoints: Checkpoints, blobs: MemoryBlobs
) -> None:
    await upload_chunks(blobs, OWNER, b"one")
    begun = await checkpoints.begin(OWNER, manifest_of(file_of("last.pt", b"one", b"two", b"two")))
    assert [chunk.sha256 for chunk in begun.uploads] == [digest(b"two")]
    [wanted] = begun.uploads
    assert f"attempts/1/incoming/{digest(b'two')}" in wanted.url
    assert "max_size=3" in wanted.url
    assert wanted.method == "PUT"


async def test_begin_twice_is_the_same_as_once(checkpoints: Checkpoints) -> None:
    manifest = manifest_of(file_of("last.pt", b"one"))
    assert await checkpoints.begin(OWNER, manifest) == await checkpoints.begin(OWNER, manifest)


async def test_another_attempt_gets_another_id_and_shares_no_chunk(
    checkpoints: Checkpoints, blobs: MemoryBlobs
) -> None:
    manifest = manifest_of(file_of("last.pt", b"one"))
    first = await begin_and_upload(checkpoints, blobs, OWNER, "last.pt", b"one")
    second_owner = UploadOwner(organisation="lab", job_id=OWNER.job_id, attempt=2)
    second = await checkpoints.begin(second_owner, manifest)
    assert second.id != first.id
    assert len(second.uploads) == 1


async def test_another_organisation_cannot_see_what_is_stored(
    checkpoints: Checkpoints, blobs: MemoryBlobs
) -> None:
    await begin_and_upload(checkpoints, blobs, OWNER, "last.pt", b"one")
    stranger = UploadOwner(organisation="other", job_id=OWNER.job_id, attempt=1)
    assert len((await checkpoints.begin(stranger, manifest_of(file_of("last.pt", b"one")))).uploads) == 1


async def test_verify_describes_what_was_uploaded(checkpoints: Checkpoints, blobs: MemoryBlobs) -> None:
    begun = await begin_and_upload(checkpoints, blobs, OWNER, "ckpt/last.pt", b"one", b"two")
    verified = await checkpoints.verify(OWNER, begun.id)
    assert (verified.id, verified.attempt, verified.step, verified.size) == (begun.id, 1, 400, 6)
    assert verified.manifest == OWNER.manifest_key(begun.id)
    assert verified.ref(saved_at_ms=5).saved_at_ms == 5


async def test_verify_twice_is_the_same_as_once(checkpoints: Checkpoints, blobs: MemoryBlobs) -> None:
    begun = await begin_and_upload(checkpoints, blobs, OWNER, "last.pt", b"one")
    assert await checkpoints.verify(OWNER, begun.id) == await checkpoints.verify(OWNER, begun.id)


async def test_verify_before_everything_is_there_says_what_to_send_and_where(
    checkpoints: Checkpoints, blobs: MemoryBlobs
) -> None:
    begun = await checkpoints.begin(OWNER, manifest_of(file_of("last.pt", b"one", b"two")))
    await upload_chunks(blobs, OWNER, b"one")
    with pytest.raises(IncompleteUpload) as refused:
        await checkpoints.verify(OWNER, begun.id)
    assert refused.value.details["missing"] == [digest(b"two")]
    [wanted] = refused.value.details["uploads"]
    assert wanted["sha256"] == digest(b"two")
    assert wanted["url"].startswith("memory://")


@pytest.mark.parametrize("torn", [b"", b"on", b"ONE", b"one and more"])
async def test_a_chunk_that_changed_after_its_upload_is_refused(
    checkpoints: Checkpoints, blobs: MemoryBlobs, torn: bytes
) -> None:
    begun = await begin_and_upload(checkpoints, blobs, OWNER, "last.pt", b"one", b"two")
    await blobs.put(OWNER.incoming_key(digest(b"one")), torn)
    with pytest.raises(IncompleteUpload) as refused:
        await checkpoints.verify(OWNER, begun.id)
    assert refused.value.details["missing"] == [digest(b"one")]
    await upload_chunks(blobs, OWNER, b"one")
    assert (await checkpoints.verify(OWNER, begun.id)).size == 6


async def test_large_chunks_are_hashed_too(checkpoints: Checkpoints, blobs: MemoryBlobs) -> None:
    large = b"x" * 300_000
    begun = await begin_and_upload(checkpoints, blobs, OWNER, "last.pt", large)
    assert (await checkpoints.verify(OWNER, begun.id)).size == 300_000
    await blobs.put(OWNER.chunk_key(digest(large)), b"y" * 300_000)
    with pytest.raises(IncompleteUpload):
        await checkpoints.verify(OWNER, begun.id)


async def test_whole_chunks_that_do_not_make_the_file_are_refused(
    checkpoints: Checkpoints, blobs: MemoryBlobs
) -> None:
    file = file_of("last.pt", b"one", b"two")
    file["chunks"].reverse()
    begun = await checkpoints.begin(OWNER, manifest_of(file))
    await upload_chunks(blobs, OWNER, b"one", b"two")
    with pytest.raises(BlobCorrupt, match=r"last\.pt"):
        await checkpoints.verify(OWNER, begun.id)


@pytest.mark.parametrize("unknown", ["", "0" * 64, "../../x", "x" * 5000])
async def test_an_id_that_was_never_begun_is_not_found(checkpoints: Checkpoints, unknown: str) -> None:
    with pytest.raises(NotFound):
        await checkpoints.verify(OWNER, unknown)


async def test_another_attempt_cannot_commit_what_this_one_began(
    checkpoints: Checkpoints, blobs: MemoryBlobs
) -> None:
    begun = await begin_and_upload(checkpoints, blobs, OWNER, "last.pt", b"one")
    with pytest.raises(NotFound):
        await checkpoints.verify(UploadOwner(organisation="lab", job_id=OWNER.job_id, attempt=2), begun.id)


async def test_an_artifact_is_one_file_under_its_name(checkpoints: Checkpoints, blobs: MemoryBlobs) -> None:
    begun = await checkpoints.begin_artifact(OWNER, artifact_of("runs/best.pt", b"one", b"two"))
    await upload_chunks(blobs, OWNER, b"one", b"two")
    artifact = await checkpoints.verify_artifact(OWNER, begun.id)
    assert (artifact.name, artifact.attempt, artifact.size) == ("runs/best.pt", 1, 6)
    assert artifact.sha256 == digest(b"onetwo")
    plan = await checkpoints.download_plan(artifact.key)
    assert [file.path for file in plan.files] == ["runs/best.pt"]


async def test_an_artifact_is_not_a_checkpoint_and_vice_versa(
    checkpoints: Checkpoints, blobs: MemoryBlobs
) -> None:
    artifact = await checkpoints.begin_artifact(OWNER, artifact_of("best.pt", b"one"))
    checkpoint = await begin_and_upload(checkpoints, blobs, OWNER, "best.pt", b"one")
    with pytest.raises(NotFound):
        await checkpoints.verify(OWNER, artifact.id)
    with pytest.raises(NotFound):
        await checkpoints.verify_artifact(OWNER, checkpoint.id)


async def test_an_empty_file_needs_no_chunk(checkpoints: Checkpoints) -> None:
    begun = await checkpoints.begin(OWNER, manifest_of(file_of("empty")))
    assert begun.uploads == ()
    assert (await checkpoints.verify(OWNER, begun.id)).size == 0


async def test_the_download_plan_gives_every_chunk_in_order(
    checkpoints: Checkpoints, blobs: MemoryBlobs
) -> None:
    begun = await begin_and_upload(checkpoints, blobs, OWNER, "last.pt", b"one", b"two", b"one")
    verified = await checkpoints.verify(OWNER, begun.id)
    plan = await checkpoints.download_plan(verified.manifest)
    assert (plan.step, plan.world_size) == (400, 1)
    [file] = plan.files
    assert [chunk.sha256 for chunk in file.chunks] == [digest(b"one"), digest(b"two"), digest(b"one")]
    assert all("method=GET" in chunk.url for chunk in file.chunks)


async def test_a_damaged_checkpoint_is_detected_before_resuming(
    checkpoints: Checkpoints, blobs: MemoryBlobs
) -> None:
    begun = await begin_and_upload(checkpoints, blobs, OWNER, "last.pt", b"one")
    key = OWNER.manifest_key(begun.id)
    assert await checkpoints.is_intact(key)
    await blobs.put(OWNER.chunk_key(digest(b"one")), b"oNe")
    assert not await checkpoints.is_intact(key)
    with pytest.raises(BlobCorrupt):
        await checkpoints.check(key)


async def test_a_damaged_or_deleted_manifest_is_detected(
    checkpoints: Checkpoints, blobs: MemoryBlobs
) -> None:
    begun = await begin_and_upload(checkpoints, blobs, OWNER, "last.pt", b"one")
    key = OWNER.manifest_key(begun.id)
    for damaged in (b"", b"{}", b"[1]", b'{"kind":"artifact","files":[]}', b"\xff\xfe"):
        await blobs.put(key, damaged)
        with pytest.raises(BlobCorrupt):
            await checkpoints.check(key)
    await begin_and_upload(checkpoints, blobs, OWNER, "last.pt", b"one", step=401)
    other = manifest_of(file_of("last.pt", b"one"), step=401)
    await blobs.put(key, await blobs.get(OWNER.manifest_key((await checkpoints.begin(OWNER, other)).id)))
    with pytest.raises(BlobCorrupt, match="was changed after it was stored"):
        await checkpoints.check(key)
    await blobs.delete(key)
    with pytest.raises(BlobMissing):
        await checkpoints.check(key)


async def test_a_chunk_that_may_be_swept_soon_is_uploaded_again(
    checkpoints: Checkpoints, blobs: MemoryBlobs, now: Now
) -> None:
    manifest = manifest_of(file_of("last.pt", b"one"))
    await begin_and_upload(checkpoints, blobs, OWNER, "last.pt", b"one")
    now.ms += 11 * HOUR_MS
    assert (await checkpoints.begin(OWNER, manifest)).uploads == ()
    now.ms += 2 * HOUR_MS
    assert len((await checkpoints.begin(OWNER, manifest)).uploads) == 1
