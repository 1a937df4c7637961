"""Files of checkpoints and artifacts, read as one stream."""

from collections.abc import AsyncIterator

import pytest

from anygpu.errors import BlobCorrupt, BlobMissing, NotFound
from anygpu.store.blobs import stored_file
from anygpu.store.blobs.checkpoints import Checkpoints
from anygpu.store.blobs.stored_file import StoredFiles
from anygpu.testing.memory.blobs import MemoryBlobs
from anygpu.testing.samples.manifests import OWNER, begin_and_upload, digest

PARTS = (b"one", b"three", b"one")
WHOLE = b"".join(PARTS)


class Stored:
    """A checkpoint with a file in three parts, two of which are equal."""

    def __init__(self) -> None:
        self.blobs = MemoryBlobs(lambda: 1)
        self.checkpoints = Checkpoints(self.blobs)
        self.files = StoredFiles(self.blobs, self.checkpoints)

    async def save(self) -> str:
        session = await begin_and_upload(self.checkpoints, self.blobs, OWNER, "last.pt", *PARTS)
        return (await self.checkpoints.verify(OWNER, session.id)).manifest

    async def read(self, key: str, start: int = 0, end: int | None = None) -> bytes:
        file = await self.files.find(key, "last.pt")
        return b"".join([piece async for piece in await self.files.read(file, start, end)])


@pytest.mark.parametrize("limit", [0, 1 << 20])
async def test_every_range_is_the_part_of_the_joined_file(
    limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_file, "VERIFIED_FIRST_BYTES", limit)
    stored = Stored()
    key = await stored.save()
    assert await stored.read(key) == WHOLE
    for start in range(len(WHOLE)):
        for end in range(start + 1, len(WHOLE) + 1):
            assert await stored.read(key, start, end) == WHOLE[start:end]


async def test_an_unknown_file_of_a_checkpoint_is_not_found() -> None:
    stored = Stored()
    with pytest.raises(NotFound, match=r"no file 'x\.pt'"):
        await stored.files.find(await stored.save(), "x.pt")


async def test_missing_and_short_parts_are_noticed_before_the_first_byte() -> None:
    stored = Stored()
    file = await stored.files.find(await stored.save())
    key = OWNER.chunk_key(digest(b"three"))
    await stored.blobs.put(key, b"thre")
    with pytest.raises(BlobCorrupt):
        await stored.files.read(file)
    await stored.blobs.delete(key)
    with pytest.raises(BlobMissing):
        await stored.files.read(file)
    assert [piece async for piece in await stored.files.read(file, 0, 3)] == [b"one"]


async def test_a_changed_part_is_never_sent_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_file, "VERIFIED_FIRST_BYTES", 0)
    stored = Stored()
    file = await stored.files.find(await stored.save())
    await stored.blobs.put(OWNER.chunk_key(digest(b"three")), b"thr__")
    received: list[bytes] = []
    with pytest.raises(BlobCorrupt, match="checksum"):
        await collect(await stored.files.read(file), received)
    assert received == [b"one"]


async def collect(pieces: AsyncIterator[bytes], received: list[bytes]) -> None:
    while (piece := await anext(pieces, None)) is not None:
        received.append(piece)
