"""Read a file of a checkpoint or artifact as one stream, although it is stored in chunks."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

from anygpu.errors import BlobCorrupt, BlobMissing, NotFound
from anygpu.store.blobs.checkpoints import Checkpoints
from anygpu.store.blobs.contract import Blobs
from anygpu.store.blobs.uploads import update_hashes

PIECE_BYTES = 1024 * 1024
MAX_CONCURRENT_HEADS = 16
# A file up to this size is verified before its first byte is sent; a larger one is verified chunk by chunk.
VERIFIED_FIRST_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class StoredChunk:
    key: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of a published checkpoint or artifact, and the chunks that it consists of, in order."""

    path: str
    size: int
    sha256: str
    chunks: tuple[StoredChunk, ...]


@dataclass(frozen=True, slots=True)
class ChunkRange:
    """The bytes of a chunk from `start` to `end` (exclusive)."""

    chunk: StoredChunk
    start: int
    end: int

    @property
    def is_whole(self) -> bool:
        return self.start == 0 and self.end == self.chunk.size


class StoredFiles:
    """Finds and reads files of published checkpoints and artifacts."""

    def __init__(self, blobs: Blobs, checkpoints: Checkpoints) -> None:
        self._blobs, self._checkpoints = blobs, checkpoints

    async def find(self, manifest_key: str, path: str | None = None) -> StoredFile:
        """Return a file of a manifest; without a path its first file.

        Raises BlobMissing if retention has removed the manifest, BlobCorrupt if it is damaged, and NotFound
        if it has no such file.
        """
        owner, manifest = await self._checkpoints.read(manifest_key)
        for file in manifest.files:
            if path is None or file.path == path:
                chunks = tuple(StoredChunk(owner.chunk_key(c.sha256), c.size, c.sha256) for c in file.chunks)
                return StoredFile(file.path, file.size, file.sha256, chunks)
        raise NotFound(
            f"The checkpoint has no file {path!r}", hint="Choose one of the paths in the list of checkpoints."
        )

    async def read(self, file: StoredFile, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        """Return the bytes of a file from `start` to `end`, in pieces.

        Every chunk is checked before this method returns: BlobMissing or BlobCorrupt is raised before the
        first byte. The content of a file with more than 4 MiB is verified while it is read. If a chunk is
        damaged, the stream raises BlobCorrupt before the last piece of the chunk, so that a damaged file
        never arrives complete.
        """
        parts = tuple(_ranges(file, start, file.size if end is None else end))
        await self._require_stored(file, parts)
        if file.size <= VERIFIED_FIRST_BYTES:
            pieces = [piece async for piece in self._pieces(file, parts)]
            return _replay(pieces)
        return self._pieces(file, parts)

    async def _require_stored(self, file: StoredFile, parts: tuple[ChunkRange, ...]) -> None:
        slots = asyncio.Semaphore(MAX_CONCURRENT_HEADS)
        chunks = {part.chunk.key: part.chunk for part in parts}

        async def require(chunk: StoredChunk) -> None:
            async with slots:
                info = await self._blobs.head(chunk.key)
            if info is None:
                raise BlobMissing(
                    f"A part of the file {file.path!r} is no longer stored",
                    hint="It was deleted because it was too old, or the disk or bucket lost it. Choose another file.",
                )
            if info.size != chunk.size:
                raise _damaged(file)

        await asyncio.gather(*(require(chunk) for chunk in chunks.values()))

    async def _pieces(self, file: StoredFile, parts: tuple[ChunkRange, ...]) -> AsyncIterator[bytes]:
        for part in parts:
            pieces = self._verified_chunk(file, part.chunk) if part.is_whole else self._partial_chunk(part)
            async for piece in pieces:
                yield piece

    async def _verified_chunk(self, file: StoredFile, chunk: StoredChunk) -> AsyncIterator[bytes]:
        """Yield the pieces of a chunk. The last one is kept back until the hash of the chunk is known."""
        digest, held = hashlib.sha256(), b""
        async for piece in self._blobs.stream(chunk.key):
            if held:
                yield held
            await update_hashes(piece, digest)
            held = piece
        if digest.hexdigest() != chunk.sha256:
            raise _damaged(file)
        yield held

    async def _partial_chunk(self, part: ChunkRange) -> AsyncIterator[bytes]:
        start = part.start
        while start < part.end:
            length = min(PIECE_BYTES, part.end - start)
            piece = await self._blobs.get(part.chunk.key, start=start, length=length)
            if not piece:
                raise BlobMissing(key=part.chunk.key)
            start += len(piece)
            yield piece


def _ranges(file: StoredFile, start: int, end: int) -> Iterator[ChunkRange]:
    """Yield, for each chunk, the part of it that the bytes from `start` to `end` of the file consist of."""
    offset = 0
    for chunk in file.chunks:
        first, last = max(start - offset, 0), min(end - offset, chunk.size)
        if first < last:
            yield ChunkRange(chunk, first, last)
        offset += chunk.size


async def _replay(pieces: list[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


def _damaged(file: StoredFile) -> BlobCorrupt:
    return BlobCorrupt(
        f"The stored content of {file.path!r} does not match its checksum.",
        hint="Use another checkpoint or file, and check the disk or bucket.",
    )
