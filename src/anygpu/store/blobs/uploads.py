"""Content-addressed files of an organisation: working-directory archives and plans."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from typing import Any, Protocol

from anygpu.errors import BlobCorrupt, InvalidSpec, Problem, TooLarge
from anygpu.store.blobs.contract import BlobInfo, Blobs
from anygpu.store.blobs.keys import plan_key, upload_key
from anygpu.store.blobs.manifest import is_sha256

INLINE_BYTES = 64 * 1024  # below this a thread costs more than the hash


class Hasher(Protocol):
    def update(self, data: bytes, /) -> None: ...

    def hexdigest(self) -> str: ...


async def update_hashes(piece: bytes, *hashes: Hasher) -> None:
    if len(piece) <= INLINE_BYTES:
        _update_all(piece, hashes)
    else:
        await asyncio.to_thread(_update_all, piece, hashes)


def _update_all(piece: bytes, hashes: tuple[Hasher, ...]) -> None:
    for each in hashes:
        each.update(piece)


async def verify_stream(stream: AsyncIterator[bytes], *, sha256: str, limit: int) -> AsyncIterator[bytes]:
    """The same bytes; fails before its end when they are too many or not the promised ones.

    Given to `Blobs.put`, a stream that fails leaves nothing behind.
    """
    seen, digest = 0, hashlib.sha256()
    async for piece in stream:
        seen += len(piece)
        if seen > limit:
            raise TooLarge(f"More than {limit} bytes were sent.", limit=limit)
        await update_hashes(piece, digest)
        yield piece
    if digest.hexdigest() != sha256:
        raise BlobCorrupt(
            f"The {seen} bytes received do not have the sha256 {sha256}.",
            hint="Send them again; something changed them on the way, or while they were read.",
        )


URL_LIFE_S = 3600.0


class Uploads:
    """Each archive is kept once for each organisation; nobody learns what another organisation has."""

    def __init__(self, blobs: Blobs, *, url_life_s: float = URL_LIFE_S) -> None:
        self._blobs = blobs
        self._url_life_s = url_life_s

    async def has(self, organisation: str, sha256: str, *, since_ms: int = 0) -> bool:
        """`since_ms`: what is older may be swept before a job refers to it, so it does not count."""
        info = await self._blobs.head(self.key(organisation, sha256))
        return info is not None and info.modified_ms >= since_ms

    async def save(
        self, organisation: str, sha256: str, stream: AsyncIterator[bytes], *, limit: int
    ) -> BlobInfo:
        """Checks while it writes: TooLarge and BlobCorrupt leave nothing behind."""
        key = self.key(organisation, sha256)
        return await self._blobs.put(key, verify_stream(stream, sha256=sha256, limit=limit))

    async def url(self, organisation: str, sha256: str) -> str:
        key = self.key(organisation, sha256)
        return await self._blobs.sign("GET", key, expires_s=self._url_life_s)

    def key(self, organisation: str, sha256: str) -> str:
        if not is_sha256(sha256):
            raise InvalidSpec([Problem("sha256", sha256[:200], "64 lower-case hex digits are needed")])
        return upload_key(organisation, sha256)


class Plans:
    """Named by their content: jobs with the same plan share one file."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs

    async def put(self, organisation: str, plan: dict[str, Any]) -> str:
        """The key to find it by."""
        text = json.dumps(plan, sort_keys=True, separators=(",", ":")).encode()
        key = plan_key(organisation, hashlib.sha256(text).hexdigest())
        await self._blobs.put(key, text)
        return key

    async def read(self, key: str) -> dict[str, Any]:
        """BlobMissing when it is no longer there."""
        try:
            plan = json.loads(await self._blobs.get(key))
        except ValueError:
            plan = None
        if not isinstance(plan, dict):
            raise BlobCorrupt(f"{key} does not hold a plan")
        return plan
