"""Working-directory archives and plans of an organisation, stored under the hash of their content."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from typing import Any, Protocol

from anygpu.errors import BlobCorrupt, InvalidSpec, Problem, TooLarge
from anygpu.store.blobs.contract import BlobInfo, Blobs
from anygpu.store.blobs.keys import plan_key, upload_key
from anygpu.store.blobs.manifest import is_sha256

INLINE_BYTES = 64 * 1024  # below this size a thread costs more than the hash


class Hasher(Protocol):
    def update(self, data: bytes, /) -> None: ...

    def copy(self) -> "Hasher": ...

    def hexdigest(self) -> str: ...


async def update_hashes(piece: bytes, *hashes: Hasher) -> None:
    """Update each of the hashes with a piece of data. A large piece is hashed in a thread."""
    if len(piece) <= INLINE_BYTES:
        _update_all(piece, hashes)
    else:
        await asyncio.to_thread(_update_all, piece, hashes)


def _update_all(piece: bytes, hashes: tuple[Hasher, ...]) -> None:
    for each in hashes:
        each.update(piece)


async def verify_stream(stream: AsyncIterator[bytes], *, sha256: str, limit: int) -> AsyncIterator[bytes]:
    """Yield the pieces of a stream unchanged, while checking their total size and sha256.

    Raises TooLarge if there are more than `limit` bytes, and BlobCorrupt after the last piece if the sha256
    is wrong. In both cases `Blobs.put` stores nothing, because its stream has raised an error.
    """
    size, digest = 0, hashlib.sha256()
    async for piece in stream:
        size += len(piece)
        if size > limit:
            raise TooLarge(
                f"The upload has more than {limit} bytes, which is the limit. Exclude large files, or ask the "
                "operator to raise the setting `limits.upload_bytes`.",
                limit=limit,
            )
        await update_hashes(piece, digest)
        yield piece
    if digest.hexdigest() != sha256:
        raise BlobCorrupt(
            f"The upload is damaged: the {size} bytes that arrived do not have the sha256 {sha256}.",
            hint="The data changed during the transfer or while it was read. Send it again.",
        )


URL_LIFE_S = 3600.0


class Uploads:
    """Stores archives of working directories, by their sha256.

    Each organisation has its own copies and cannot see those of others.
    """

    def __init__(self, blobs: Blobs, *, url_life_s: float = URL_LIFE_S) -> None:
        self._blobs = blobs
        self._url_life_s = url_life_s

    async def has(self, organisation: str, sha256: str, *, since_ms: int = 0) -> bool:
        """Return whether the archive is stored, at or after the time `since_ms`.

        `anygpu gc` may delete an older archive before a job uses it.
        """
        info = await self._blobs.head(self.key(organisation, sha256))
        return info is not None and info.modified_ms >= since_ms

    async def save(
        self, organisation: str, sha256: str, stream: AsyncIterator[bytes], *, limit: int
    ) -> BlobInfo:
        """Store an archive and verify it during the upload.

        If TooLarge or BlobCorrupt is raised, nothing is stored.
        """
        key = self.key(organisation, sha256)
        return await self._blobs.put(key, verify_stream(stream, sha256=sha256, limit=limit))

    async def url(self, organisation: str, sha256: str) -> str:
        key = self.key(organisation, sha256)
        return await self._blobs.sign("GET", key, expires_s=self._url_life_s)

    def key(self, organisation: str, sha256: str) -> str:
        if not is_sha256(sha256):
            raise InvalidSpec([Problem("sha256", sha256[:200], "must be 64 lower-case hexadecimal digits")])
        return upload_key(organisation, sha256)


class Plans:
    """The stored plans of an organisation's jobs.

    A key is the hash of the content, so equal plans are stored once.
    """

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs

    async def put(self, organisation: str, plan: dict[str, Any]) -> str:
        """Store a plan and return its key."""
        text = json.dumps(plan, sort_keys=True, separators=(",", ":")).encode()
        key = plan_key(organisation, hashlib.sha256(text).hexdigest())
        await self._blobs.put(key, text)
        return key

    async def read(self, key: str) -> dict[str, Any]:
        """Return the plan with this key. Raises BlobMissing if `anygpu gc` has deleted it."""
        try:
            plan = json.loads(await self._blobs.get(key))
        except ValueError:
            plan = None
        if not isinstance(plan, dict):
            raise BlobCorrupt(f"The stored plan {key!r} is damaged. `anygpu plan` computes a new one.")
        return plan
