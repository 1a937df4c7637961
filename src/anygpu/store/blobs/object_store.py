"""Operations that all blob stores based on obstore share: get, stream, head, list and delete."""

import asyncio
import errno
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from anygpu.errors import AnygpuError, BackendUnavailable, BlobMissing, StorageFull
from anygpu.store.blobs.contract import BlobInfo
from anygpu.store.blobs.keys import STAGING, require_safe_key, require_safe_prefix

if TYPE_CHECKING:
    from obstore import GetOptions, ObjectMeta
    from obstore.store import ObjectStore

_P = ParamSpec("_P")
_Result = TypeVar("_Result")


class ThreadRunner:
    """Runs blocking calls in threads. Each store has its own threads, so a slow bucket blocks nothing else.

    obstore has an asynchronous API, but a process that exits within milliseconds of such a call may abort,
    because obstore's threads outlive the interpreter. Blocking calls in our own threads do not have this
    problem.
    """

    def __init__(self, count: int = 16) -> None:
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="blobs")

    async def __call__(self, call: Callable[_P, _Result], *args: _P.args, **kwargs: _P.kwargs) -> _Result:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, lambda: call(*args, **kwargs))


async def one_piece(data: bytes) -> AsyncIterator[bytes]:
    yield data


async def rechunk(pieces: AsyncIterator[bytes], size: int) -> AsyncIterator[bytes]:
    """Join pieces so that each has at least `size` bytes, except the last.

    This reduces the number of writes.
    """
    held: list[bytes] = []
    held_size = 0
    async for piece in pieces:
        held.append(piece)
        held_size += len(piece)
        if held_size >= size:
            yield b"".join(held)
            held, held_size = [], 0
    if held:
        yield b"".join(held)


_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def translate_read_errors(key: str) -> Iterator[None]:
    """Translate obstore's errors during a read. "Not found" becomes BlobMissing."""
    try:
        yield
    except _vendor_errors() as error:
        raise (_blob_missing(key) if _is_missing(error) else translate_store_error(error, key)) from error


def _is_missing(error: Exception) -> bool:
    # A file where the key has a folder: only the local store's message tells.
    return isinstance(error, FileNotFoundError) or "Not a directory" in str(error)


def _blob_missing(key: str) -> BlobMissing:
    hint = (
        "It was deleted because it was too old, or its upload never finished. Upload it again, or use "
        "another file."
    )
    return BlobMissing(f"There is no stored file with the key {key!r}.", hint=hint, key=key)


@contextmanager
def translate_write_errors(key: str) -> Iterator[None]:
    """Translate obstore's errors during a write.

    "Not found" becomes BackendUnavailable, because during a write the bucket or directory itself is missing.
    """
    try:
        yield
    except _vendor_errors() as error:
        raise translate_store_error(error, key) from error


def translate_store_error(error: Exception, key: str) -> AnygpuError:
    if (isinstance(error, OSError) and error.errno in _DISK_FULL) or "No space left on device" in str(error):
        return StorageFull()
    message = str(error).strip().partition("\n")[0]
    return BackendUnavailable(
        f"The disk or bucket of stored files could not read or write {key!r}: {message}",
        hint="The request is retried. If the error stays, check the settings `store.blobs`, the credentials "
        "and the network of the server.",
        key=key,
    )


def _vendor_errors() -> tuple[type[Exception], ...]:
    from obstore.exceptions import BaseError  # imported late: only a server needs it

    return (OSError, BaseError)


PIECE_BYTES = 1024 * 1024
PAGE_SIZE = 1000
_T = TypeVar("_T")


class ObstoreReader:
    """The operations get, stream, head, list and delete on any obstore store."""

    def __init__(self, store: "ObjectStore") -> None:
        self._store = store
        self._in_thread = ThreadRunner()

    async def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        require_safe_key(key)
        try:
            return await self._in_thread(self._get, key, start, length)
        except AnygpuError:
            info = await self.head(key)  # stores differ for ranges that start at or after the end
            if info is not None and start >= info.size:
                return b""
            raise

    def _get(self, key: str, start: int, length: int | None) -> bytes:
        import obstore  # imported late: only a server needs it

        with translate_read_errors(key):
            if length == 0:
                obstore.head(self._store, key)
                return b""
            return obstore.get(self._store, key, options=_get_options(start, length)).bytes().to_bytes()

    async def stream(self, key: str) -> AsyncIterator[bytes]:
        pieces = await self._in_thread(self._open, require_safe_key(key))
        while (piece := await self._in_thread(_next_or_none, pieces, key)) is not None:
            yield bytes(piece)

    def _open(self, key: str) -> Iterator[bytes]:
        import obstore

        with translate_read_errors(key):
            return iter(obstore.get(self._store, key).stream(min_chunk_size=PIECE_BYTES))

    async def head(self, key: str) -> BlobInfo | None:
        try:
            return await self._in_thread(self._head, require_safe_key(key))
        except BlobMissing:
            return None

    def _head(self, key: str) -> BlobInfo:
        import obstore

        with translate_read_errors(key):
            return _info(obstore.head(self._store, key))

    async def list(self, prefix: str) -> AsyncIterator[BlobInfo]:
        pages = await self._in_thread(self._pages, require_safe_prefix(prefix))
        while (page := await self._in_thread(_next_or_none, pages, prefix)) is not None:
            for item in page:
                if not item["path"].startswith(f"{STAGING}/"):
                    yield _info(item)

    def _pages(self, folder: str) -> "Iterator[Sequence[ObjectMeta]]":
        import obstore

        with translate_read_errors(folder):
            return iter(obstore.list(self._store, folder or None, chunk_size=PAGE_SIZE))

    async def delete(self, key: str) -> None:
        try:
            await self._in_thread(self._delete, require_safe_key(key))
        except AnygpuError:
            if await self.head(key) is not None:
                raise

    def _delete(self, key: str) -> None:
        import obstore

        with translate_write_errors(key):
            obstore.delete(self._store, key)


def _get_options(start: int, length: int | None) -> "GetOptions":
    if length is not None:
        return {"range": (start, start + length)}
    return {"range": {"offset": start}} if start else {}


def _next_or_none(items: Iterator[_T], key: str) -> _T | None:
    with translate_read_errors(key):
        return next(items, None)


def _info(item: "ObjectMeta") -> BlobInfo:
    modified_ms = round(item["last_modified"].timestamp() * 1000)
    return BlobInfo(
        key=item["path"], size=item["size"], modified_ms=modified_ms, etag=item.get("e_tag") or ""
    )
