"""What every store on obstore does alike: read, list, delete."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from anygpu.errors import AnygpuError, BlobMissing
from anygpu.store.blobs import BlobInfo
from anygpu.store.objects.faults import reading, writing
from anygpu.store.objects.keys import STAGING, checked_key, checked_prefix

if TYPE_CHECKING:
    from obstore import GetOptions, ObjectMeta
    from obstore.store import ObjectStore

PIECE_BYTES = 1024 * 1024


class ObstoreReader:
    """Get, stream, head, list and delete on any obstore store."""

    def __init__(self, store: "ObjectStore") -> None:
        self._store = store

    async def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        if start == 0 and length is None:
            return b"".join([piece async for piece in self.stream(key)])
        try:
            return await self._range(checked_key(key), start, length)
        except AnygpuError:
            info = await self.head(key)  # stores disagree about ranges that begin at or after the end
            if info is not None and (start >= info.size or length == 0):
                return b""
            raise

    async def _range(self, key: str, start: int, length: int | None) -> bytes:
        import obstore

        if length == 0:
            raise BlobMissing(key=key)  # nothing to ask for; `get` finds out whether it is there
        with reading(key):
            options: GetOptions = {"range": {"offset": start} if length is None else (start, start + length)}
            found = await obstore.get_async(self._store, key, options=options)
            return (await found.bytes_async()).to_bytes()

    async def stream(self, key: str) -> AsyncIterator[bytes]:
        import obstore

        with reading(checked_key(key)):
            found = await obstore.get_async(self._store, key)
        pieces = aiter(found.stream(min_chunk_size=PIECE_BYTES))
        while True:
            with reading(key):
                piece = await anext(pieces, None)
            if piece is None:
                return
            yield bytes(piece)

    async def head(self, key: str) -> BlobInfo | None:
        import obstore

        try:
            with reading(checked_key(key)):
                return _info(await obstore.head_async(self._store, key))
        except BlobMissing:
            return None

    async def list(self, prefix: str) -> AsyncIterator[BlobInfo]:
        import obstore

        folder = checked_prefix(prefix)
        batches = aiter(obstore.list(self._store, folder or None, chunk_size=1000))
        while True:
            with reading(prefix):
                batch = await anext(batches, None)
            if batch is None:
                return
            for found in batch:
                if not found["path"].startswith(f"{STAGING}/"):
                    yield _info(found)

    async def delete(self, key: str) -> None:
        import obstore

        try:
            with writing(checked_key(key)):
                await obstore.delete_async(self._store, key)
        except AnygpuError:
            if await self.head(key) is not None:
                raise


def _info(found: "ObjectMeta") -> BlobInfo:
    modified_ms = round(found["last_modified"].timestamp() * 1000)
    return BlobInfo(key=found["path"], size=found["size"], modified_ms=modified_ms)
