"""Tests of checkpoint uploads and downloads on every blob store.

Tests of a store provide the fixture `blobs`.
"""

import hashlib

import pytest

from anygpu.errors import IncompleteUpload
from anygpu.store.blobs.checkpoints import Checkpoints, ChunkUpload, DownloadPlan
from anygpu.store.blobs.contract import Blobs
from anygpu.testing.contracts.signed_urls import fetch
from anygpu.testing.samples.manifests import OWNER, digest, file_of, manifest_of

LARGE = b"".join(hashlib.sha256(b"%d" % number).digest() for number in range(100_000))
CHUNKS = {digest(chunk): chunk for chunk in (LARGE, b"tail", b"optimizer")}
MANIFEST = manifest_of(file_of("ckpt/last.pt", LARGE, b"tail"), file_of("ckpt/optimizer.pt", b"optimizer"))


class PublishingContract:
    """Tests that an attempt downloads exactly the files that the previous attempt uploaded.

    They also test that incomplete uploads are rejected.
    """

    async def test_what_one_attempt_uploads_the_next_one_downloads(self, blobs: Blobs) -> None:
        checkpoints = Checkpoints(blobs)
        begun = await checkpoints.begin(OWNER, MANIFEST)
        assert {upload.sha256 for upload in begun.uploads} == set(CHUNKS)
        await send(begun.uploads)
        verified = await checkpoints.verify(OWNER, begun.id)
        assert verified.size == len(LARGE) + len(b"tail") + len(b"optimizer")
        assert await checkpoints.is_intact(verified.manifest)
        files = await download(await checkpoints.download_plan(verified.manifest))
        assert files == {"ckpt/last.pt": LARGE + b"tail", "ckpt/optimizer.pt": b"optimizer"}

    async def test_begin_again_after_the_upload_asks_for_nothing(self, blobs: Blobs) -> None:
        checkpoints = Checkpoints(blobs)
        begun = await checkpoints.begin(OWNER, MANIFEST)
        await send(begun.uploads)
        again = await checkpoints.begin(OWNER, MANIFEST)
        assert (again.id, again.uploads) == (begun.id, ())

    @pytest.mark.parametrize("torn", [b"", LARGE[:-1], LARGE + b"x", b"x" + LARGE[1:]])
    async def test_a_torn_chunk_is_refused_until_it_is_sent_again(self, blobs: Blobs, torn: bytes) -> None:
        checkpoints = Checkpoints(blobs)
        begun = await checkpoints.begin(OWNER, MANIFEST)
        await send(begun.uploads)
        await blobs.put(OWNER.incoming_key(digest(LARGE)), torn)
        with pytest.raises(IncompleteUpload) as refused:
            await checkpoints.verify(OWNER, begun.id)
        assert refused.value.details["missing"] == [digest(LARGE)]
        assert not await checkpoints.is_intact(OWNER.manifest_key(begun.id))
        await send(tuple(ChunkUpload(**upload) for upload in refused.value.details["uploads"]))
        assert (await checkpoints.verify(OWNER, begun.id)).step == 400

    async def test_an_old_upload_url_cannot_change_a_published_chunk(self, blobs: Blobs) -> None:
        checkpoints = Checkpoints(blobs)
        begun = await checkpoints.begin(OWNER, MANIFEST)
        await send(begun.uploads)
        verified = await checkpoints.verify(OWNER, begun.id)
        for upload in begun.uploads:
            await fetch(upload.method, upload.url, bytes(len(CHUNKS[upload.sha256])))
        assert await checkpoints.is_intact(verified.manifest)
        again = await checkpoints.begin(OWNER, {**MANIFEST, "step": 500})
        assert again.uploads == ()
        for session in (begun, again):  # a later commit does not use what the old URLs stored
            assert (await checkpoints.verify(OWNER, session.id)).size == verified.size
        files = await download(await checkpoints.download_plan(verified.manifest))
        assert files == {"ckpt/last.pt": LARGE + b"tail", "ckpt/optimizer.pt": b"optimizer"}

    async def test_a_chunk_with_other_content_is_not_published(self, blobs: Blobs) -> None:
        checkpoints = Checkpoints(blobs)
        begun = await checkpoints.begin(OWNER, MANIFEST)
        await send(begun.uploads)
        await blobs.put(OWNER.incoming_key(digest(b"tail")), b"liat")
        with pytest.raises(IncompleteUpload) as refused:
            await checkpoints.verify(OWNER, begun.id)
        assert refused.value.details["missing"] == [digest(b"tail")]
        assert await blobs.head(OWNER.chunk_key(digest(b"tail"))) is None
        await send(tuple(ChunkUpload(**upload) for upload in refused.value.details["uploads"]))
        assert (await checkpoints.verify(OWNER, begun.id)).step == 400


async def send(uploads: tuple[ChunkUpload, ...]) -> None:
    for upload in uploads:
        status, answer = await fetch(upload.method, upload.url, CHUNKS[upload.sha256])
        assert status in (200, 201), answer


async def download(plan: DownloadPlan) -> dict[str, bytes]:
    files = {}
    for file in plan.files:
        answers = [await fetch("GET", chunk.url) for chunk in file.chunks]
        assert {status for status, _ in answers} == {200}
        files[file.path] = b"".join(body for _, body in answers)
    return files
