"""Streams of bytes."""

from collections.abc import AsyncIterator


async def single(data: bytes) -> AsyncIterator[bytes]:
    yield data


async def gathered(pieces: AsyncIterator[bytes], size: int) -> AsyncIterator[bytes]:
    """The same bytes in pieces of at least `size`, but for the last: fewer, larger writes."""
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
