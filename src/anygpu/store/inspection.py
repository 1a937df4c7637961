"""Is what an agent uploaded really there? Reads chunks back and hashes them, a few at a time."""

import asyncio
import hashlib
from collections.abc import Sequence

from anygpu.errors import BlobCorrupt, BlobMissing
from anygpu.store.blobs import Blobs
from anygpu.store.hashing import Hash, absorb
from anygpu.store.layout import Owner
from anygpu.store.manifest import Chunk, File, Manifest

LOOKS_AT_ONCE = 16


class Inspector:
    """Looks at the chunks of manifests."""

    def __init__(self, blobs: Blobs, *, at_once: int) -> None:
        self._blobs = blobs
        self._reading = asyncio.Semaphore(at_once)
        self._looking = asyncio.Semaphore(LOOKS_AT_ONCE)
        self._under_way: dict[str, asyncio.Task[list[str]]] = {}

    async def lacking(self, owner: Owner, manifest: Manifest, *, oldest_ms: int) -> list[Chunk]:
        """Chunks that are not there, or have another size, or are too old to count on."""
        chunks = list(manifest.chunks().values())
        there = await asyncio.gather(*(self._is_there(owner, chunk, oldest_ms) for chunk in chunks))
        return [chunk for chunk, found in zip(chunks, there, strict=True) if not found]

    async def damaged(self, owner: Owner, manifest: Manifest) -> list[str]:
        """The sha256 of every chunk that is missing or is not what it should be.

        A request that gave up waiting and comes again joins the reading already under way: however long it
        takes, asking again gets there.
        """
        key = owner.manifest(manifest.id_in(owner.attempt))
        task = self._under_way.get(key)
        if task is None:
            task = asyncio.create_task(self._read_all(owner, manifest))
            self._under_way[key] = task
            task.add_done_callback(lambda _: self._under_way.pop(key, None))
        return await asyncio.shield(task)

    async def _is_there(self, owner: Owner, chunk: Chunk, oldest_ms: int) -> bool:
        async with self._looking:
            found = await self._blobs.head(owner.chunk(chunk.sha256))
        return found is not None and found.size == chunk.size and found.modified_ms >= oldest_ms

    async def _read_all(self, owner: Owner, manifest: Manifest) -> list[str]:
        found = await asyncio.gather(*(self._read_file(owner, file) for file in manifest.files))
        return list(dict.fromkeys(sha256 for damaged in found for sha256 in damaged))

    async def _read_file(self, owner: Owner, file: File) -> Sequence[str]:
        whole = hashlib.sha256()
        async with self._reading:
            damaged = [chunk.sha256 for chunk in file.chunks if not await self._read(owner, chunk, whole)]
        if not damaged and whole.hexdigest() != file.sha256:
            raise BlobCorrupt(
                f"The chunks of {file.path!r} are whole, but joined their sha256 is not {file.sha256}.",
                hint="Take the snapshot again: the file changed while it was read.",
            )
        return damaged

    async def _read(self, owner: Owner, chunk: Chunk, whole: Hash) -> bool:
        key, digest = owner.chunk(chunk.sha256), hashlib.sha256()
        info = await self._blobs.head(key)
        if info is None or info.size != chunk.size:  # a size that is wrong already is not worth reading
            return False
        try:
            async for piece in self._blobs.stream(key):
                await absorb(piece, digest, whole)
        except BlobMissing:
            return False
        return digest.hexdigest() == chunk.sha256
