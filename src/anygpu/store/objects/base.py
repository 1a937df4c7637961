"""What every store on obstore does alike: read, list, delete."""

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from anygpu.errors import AnygpuError, BlobMissing
from anygpu.store.blobs import BlobInfo
from anygpu.store.objects.faults import reading, writing
from anygpu.store.objects.keys import STAGING, checked_key, checked_prefix
from anygpu.store.objects.threads import Threads

if TYPE_CHECKING:
    from obstore import GetOptions, ObjectMeta
    from obstore.store import ObjectStore

PIECE_BYTES = 1024 * 1024
PAGE = 1000
_T = TypeVar("_T")


class ObstoreReader:
    """Get, stream, head, list and delete on any obstore store."""

    def __init__(self, store: "ObjectStore") -> None:
        self._store = store
        self._in_thread = Threads()

    async def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        checked_key(key)
        try:
            return await self._in_thread(self._get, key, start, length)
        except AnygpuError:
            info = await self.head(key)  # stores disagree about ranges that begin at or after the end
            if info is not None and start >= info.size:
                return b""
            raise

    def _get(self, key: str, start: int, length: int | None) -> bytes:
        import obstore  # imported late: only a server needs it

        with reading(key):
            if length == 0:
                obstore.head(self._store, key)
                return b""
            return obstore.get(self._store, key, options=_options(start, length)).bytes().to_bytes()

    async def stream(self, key: str) -> AsyncIterator[bytes]:
        pieces = await self._in_thread(self._open, checked_key(key))
        while (piece := await self._in_thread(_next, pieces, key)) is not None:
            yield bytes(piece)

    def _open(self, key: str) -> Iterator[bytes]:
        import obstore

        with reading(key):
            return iter(obstore.get(self._store, key).stream(min_chunk_size=PIECE_BYTES))

    async def head(self, key: str) -> BlobInfo | None:
        try:
            return await self._in_thread(self._head, checked_key(key))
        except BlobMissing:
            return None

    def _head(self, key: str) -> BlobInfo:
        import obstore

        with reading(key):
            return _info(obstore.head(self._store, key))

    async def list(self, prefix: str) -> AsyncIterator[BlobInfo]:
        pages = await self._in_thread(self._pages, checked_prefix(prefix))
        while (page := await self._in_thread(_next, pages, prefix)) is not None:
            for found in page:
                if not found["path"].startswith(f"{STAGING}/"):
                    yield _info(found)

    def _pages(self, folder: str) -> "Iterator[Sequence[ObjectMeta]]":
        import obstore

        with reading(folder):
            return iter(obstore.list(self._store, folder or None, chunk_size=PAGE))

    async def delete(self, key: str) -> None:
        try:
            await self._in_thread(self._delete, checked_key(key))
        except AnygpuError:
            if await self.head(key) is not None:
                raise

    def _delete(self, key: str) -> None:
        import obstore

        with writing(key):
            obstore.delete(self._store, key)


def _options(start: int, length: int | None) -> "GetOptions":
    if length is not None:
        return {"range": (start, start + length)}
    return {"range": {"offset": start}} if start else {}


def _next(items: Iterator[_T], key: str) -> _T | None:
    with reading(key):
        return next(items, None)


def _info(found: "ObjectMeta") -> BlobInfo:
    modified_ms = round(found["last_modified"].timestamp() * 1000)
    return BlobInfo(key=found["path"], size=found["size"], modified_ms=modified_ms)
