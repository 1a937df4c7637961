"""Working-directory archives."""

import pytest

from anygpu.errors import BlobCorrupt, InvalidSpec, TooLarge, UnsafePath
from anygpu.store.blobs.uploads import Uploads
from anygpu.testing.contracts.blobs import in_pieces, keys
from anygpu.testing.memory.blobs import MemoryBlobs
from anygpu.testing.samples.manifests import digest

ARCHIVE = b"a tar.gz" * 20_000
SHA256 = digest(ARCHIVE)


@pytest.fixture
def blobs() -> MemoryBlobs:
    return MemoryBlobs(lambda: 1000)


@pytest.fixture
def uploads(blobs: MemoryBlobs) -> Uploads:
    return Uploads(blobs)


async def test_an_archive_is_there_once_it_was_saved(uploads: Uploads) -> None:
    assert not await uploads.has("lab", SHA256)
    saved = await uploads.save("lab", SHA256, in_pieces(ARCHIVE, 70_000), limit=len(ARCHIVE))
    assert saved.size == len(ARCHIVE)
    assert await uploads.has("lab", SHA256)
    assert SHA256 in await uploads.url("lab", SHA256)


async def test_another_organisation_does_not_have_it(uploads: Uploads) -> None:
    await uploads.save("lab", SHA256, in_pieces(ARCHIVE, 70_000), limit=len(ARCHIVE))
    assert not await uploads.has("other", SHA256)


async def test_an_archive_that_may_be_swept_soon_does_not_count(uploads: Uploads) -> None:
    await uploads.save("lab", SHA256, in_pieces(ARCHIVE, 70_000), limit=len(ARCHIVE))
    assert await uploads.has("lab", SHA256, since_ms=1000)
    assert not await uploads.has("lab", SHA256, since_ms=1001)


async def test_bytes_with_another_sha256_are_not_stored(uploads: Uploads, blobs: MemoryBlobs) -> None:
    with pytest.raises(BlobCorrupt):
        await uploads.save("lab", SHA256, in_pieces(ARCHIVE[:-1] + b"x", 70_000), limit=len(ARCHIVE))
    assert await keys(blobs, "") == []


async def test_more_bytes_than_allowed_are_not_stored(uploads: Uploads, blobs: MemoryBlobs) -> None:
    with pytest.raises(TooLarge):
        await uploads.save("lab", SHA256, in_pieces(ARCHIVE, 70_000), limit=len(ARCHIVE) - 1)
    assert await keys(blobs, "") == []


@pytest.mark.parametrize("sha256", ["", "x", "../../secrets", SHA256.upper(), SHA256 + "0"])
async def test_a_name_that_is_no_sha256_is_refused(uploads: Uploads, sha256: str) -> None:
    with pytest.raises(InvalidSpec):
        await uploads.has("lab", sha256)


@pytest.mark.parametrize("organisation", ["", "..", "a/b", "a.", "é", "x" * 200])
async def test_an_organisation_that_could_lead_elsewhere_is_refused(
    uploads: Uploads, organisation: str
) -> None:
    with pytest.raises(UnsafePath):
        await uploads.has(organisation, SHA256)
