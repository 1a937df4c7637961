"""Blobs in a bucket: Amazon S3 and compatible stores, Google Cloud Storage, Azure."""

import tempfile
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from anygpu.store.blobs.contract import BlobInfo, Method
from anygpu.store.blobs.keys import require_safe_key, require_signable_key
from anygpu.store.blobs.local import AtomicFile
from anygpu.store.blobs.object_store import (
    PIECE_BYTES,
    ObstoreReader,
    rechunk,
    translate_read_errors,
    translate_write_errors,
)

if TYPE_CHECKING:
    from obstore.store import AzureStore, GCSStore, S3Store

PART_BYTES = 8 * 1024 * 1024  # larger values are uploaded in parts of this size


class CloudBlobs(ObstoreReader):
    """A blob store in a bucket of a cloud provider.

    The provider makes sure that an unfinished upload is never visible, and answers the requests to signed URLs.
    """

    def __init__(self, store: "S3Store | GCSStore | AzureStore") -> None:
        super().__init__(store)
        self._bucket = store

    async def put(self, key: str, data: bytes | AsyncIterator[bytes]) -> BlobInfo:
        require_safe_key(key)
        if isinstance(data, bytes):
            return await self._in_thread(self._put, key, data)
        # Buffered in a file, so that a slow or vanished sender leaves no unfinished upload in the bucket.
        with AtomicFile(Path(tempfile.gettempdir()), key) as file:
            async for piece in rechunk(data, PIECE_BYTES):
                await self._in_thread(file.write, piece)
            await self._in_thread(file.flush)
            return await self._in_thread(self._put, key, file.path)

    def _put(self, key: str, data: bytes | Path) -> BlobInfo:
        import obstore

        with translate_write_errors(key):
            obstore.put(self._store, key, data, chunk_size=PART_BYTES)
        size = len(data) if isinstance(data, bytes) else data.stat().st_size
        # The local clock instead of the store's: reading that one would take a second request.
        return BlobInfo(key=key, size=size, modified_ms=time.time_ns() // 1_000_000)

    async def move(self, source: str, target: str) -> None:
        await self._in_thread(self._copy, require_safe_key(source), require_safe_key(target))
        await self.delete(source)

    def _copy(self, source: str, target: str) -> None:
        import obstore

        with translate_read_errors(source):
            obstore.copy(self._store, source, target)

    async def sign(self, method: Method, key: str, *, expires_s: float, max_size: int | None = None) -> str:
        """Return a signed URL.

        Provider URLs cannot enforce `max_size`; the size is checked when the upload is verified.
        """
        return await self._in_thread(
            self._sign, method, require_signable_key(key), timedelta(seconds=expires_s)
        )

    def _sign(self, method: Method, key: str, expires_in: timedelta) -> str:
        import obstore

        with translate_write_errors(key):
            return obstore.sign(self._bucket, method, key, expires_in)
