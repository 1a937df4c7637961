"""A blob store in a dictionary."""

import time
from collections.abc import AsyncIterator, Callable

from anygpu.errors import BlobMissing
from anygpu.store.blobs.contract import BlobInfo, Method
from anygpu.store.blobs.keys import require_safe_key, require_safe_prefix, require_signable_key


class MemoryBlobs:
    """An in-memory `Blobs`."""

    def __init__(self, now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> None:
        self._now_ms = now_ms
        self._blobs: dict[str, tuple[BlobInfo, bytes]] = {}

    async def put(self, key: str, data: bytes | AsyncIterator[bytes]) -> BlobInfo:
        require_safe_key(key)
        whole = data if isinstance(data, bytes) else b"".join([piece async for piece in data])
        info = BlobInfo(key=key, size=len(whole), modified_ms=self._now_ms())
        self._blobs[key] = (info, whole)
        return info

    async def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        end = None if length is None else start + length
        return self._read(key)[start:end]

    async def stream(self, key: str) -> AsyncIterator[bytes]:
        whole = self._read(key)
        if whole:
            yield whole

    async def head(self, key: str) -> BlobInfo | None:
        stored = self._blobs.get(require_safe_key(key))
        return stored and stored[0]

    async def list(self, prefix: str) -> AsyncIterator[BlobInfo]:
        folder = require_safe_prefix(prefix)
        for key, (info, _) in sorted(self._blobs.items()):
            if not folder or key.startswith(f"{folder}/"):
                yield info

    async def sign(self, method: Method, key: str, *, expires_s: float, max_size: int | None = None) -> str:
        limit = "" if max_size is None else f"&max_size={max_size}"
        expires_ms = self._now_ms() + round(expires_s * 1000)
        return f"memory:///blobs/{require_signable_key(key)}?method={method}&expires_ms={expires_ms}{limit}"

    async def move(self, source: str, target: str) -> None:
        await self.put(target, self._read(source))
        if source != target:
            await self.delete(source)

    async def delete(self, key: str) -> None:
        self._blobs.pop(require_safe_key(key), None)

    def _read(self, key: str) -> bytes:
        try:
            return self._blobs[require_safe_key(key)][1]
        except KeyError as error:
            raise BlobMissing(f"There is no blob {key!r}.", key=key) from error
