"""Blobs as files under one directory."""

import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from anygpu.store.blobs import BlobInfo, Method
from anygpu.store.objects.aside import AsideFile
from anygpu.store.objects.base import PIECE_BYTES, ObstoreReader
from anygpu.store.objects.faults import writing
from anygpu.store.objects.keys import STAGING, checked_key, signable_key
from anygpu.store.objects.pieces import gathered, single
from anygpu.store.signing import sign_url


class LocalBlobs(ObstoreReader):
    """A put is written aside, made durable, and only then given its name; the server signs the URLs.

    obstore's own local put does not wait for the disk, and what we acknowledge must survive a power cut.
    """

    def __init__(
        self, root: Path, *, secret: bytes, base_url: str = "", now_s: Callable[[], float] = time.time
    ) -> None:
        from obstore.store import LocalStore

        self.root = root.resolve()
        self.base_url = base_url
        self._secret, self._now_s = secret, now_s
        self._staging = self.root / STAGING
        with writing(str(root)):
            self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._staging.mkdir(exist_ok=True, mode=0o700)
            super().__init__(LocalStore(self.root, automatic_cleanup=True))

    async def put(self, key: str, data: bytes | AsyncIterator[bytes]) -> BlobInfo:
        pieces = single(data) if isinstance(data, bytes) else data
        with AsideFile(self._staging, checked_key(key)) as aside:
            async for piece in gathered(pieces, PIECE_BYTES):
                await self._in_thread(aside.write, piece)
            return await self._in_thread(aside.give_name, self.root)

    async def sign(self, method: Method, key: str, *, expires_s: float, max_size: int | None = None) -> str:
        expires_at = self._now_s() + expires_s
        return sign_url(self.base_url, method, signable_key(key), expires_at, self._secret, max_size=max_size)

    async def sweep_unfinished(self, before_ms: int, *, dry_run: bool = False) -> list[BlobInfo]:
        """What a killed server left half-written before that time."""
        return await self._in_thread(_sweep_directory, self._staging, before_ms, dry_run)


def _sweep_directory(directory: Path, before_ms: int, dry_run: bool) -> list[BlobInfo]:
    swept = []
    for path in directory.iterdir():
        found = path.stat()
        modified_ms = found.st_mtime_ns // 1_000_000
        if modified_ms < before_ms:
            swept.append(BlobInfo(key=f"{STAGING}/{path.name}", size=found.st_size, modified_ms=modified_ms))
            if not dry_run:
                path.unlink(missing_ok=True)
    return swept
