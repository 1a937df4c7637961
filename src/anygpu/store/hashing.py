"""SHA-256 of streams, off the event loop."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from typing import Protocol

from anygpu.errors import BlobCorrupt, TooLarge

INLINE_BYTES = 64 * 1024  # below this a thread costs more than the hash


class Hash(Protocol):
    def update(self, data: bytes, /) -> None: ...

    def hexdigest(self) -> str: ...


async def absorb(piece: bytes, *hashes: Hash) -> None:
    if len(piece) <= INLINE_BYTES:
        _update(piece, hashes)
    else:
        await asyncio.to_thread(_update, piece, hashes)


def _update(piece: bytes, hashes: tuple[Hash, ...]) -> None:
    for each in hashes:
        each.update(piece)


async def checked(stream: AsyncIterator[bytes], *, sha256: str, limit: int) -> AsyncIterator[bytes]:
    """The same bytes; fails before its end when they are too many or not the promised ones.

    Given to `Blobs.put`, a stream that fails leaves nothing behind.
    """
    seen, digest = 0, hashlib.sha256()
    async for piece in stream:
        seen += len(piece)
        if seen > limit:
            raise TooLarge(f"More than {limit} bytes were sent.", limit=limit)
        await absorb(piece, digest)
        yield piece
    if digest.hexdigest() != sha256:
        raise BlobCorrupt(
            f"The {seen} bytes received do not have the sha256 {sha256}.",
            hint="Send them again; something changed them on the way, or while they were read.",
        )
