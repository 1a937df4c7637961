"""Reading back: joined, bounded, and honest about a store that fails."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from anygpu.errors import BackendUnavailable
from anygpu.store.blobs.checkpoints import Checkpoints
from anygpu.testing.memory.blobs import MemoryBlobs
from anygpu.testing.samples.manifests import OWNER, begin_and_upload, file_of, manifest_of, upload_chunks


class SlowBlobs(MemoryBlobs):
    """Streams wait at a gate; counts how many are open."""

    def __init__(self) -> None:
        super().__init__(lambda: 0)
        self.gate = asyncio.Event()
        self.opened = self.open = self.most_open = 0

    async def stream(self, key: str) -> AsyncIterator[bytes]:
        self.opened += 1
        self.open += 1
        self.most_open = max(self.open, self.most_open)
        await self.gate.wait()
        self.open -= 1
        async for piece in super().stream(key):
            yield piece


class FailingBlobs(MemoryBlobs):
    async def stream(self, key: str) -> AsyncIterator[bytes]:
        raise BackendUnavailable
        yield b""


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never came")


async def test_a_repeated_commit_joins_the_running_verification() -> None:
    blobs = SlowBlobs()
    checkpoints = Checkpoints(blobs)
    begun = await begin_and_upload(checkpoints, blobs, OWNER, "last.pt", b"one")
    first = asyncio.create_task(checkpoints.verify(OWNER, begun.id))
    await until(lambda: blobs.opened == 1)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    second = asyncio.create_task(checkpoints.verify(OWNER, begun.id))
    blobs.gate.set()
    assert (await second).id == begun.id
    assert blobs.opened == 1


async def test_only_a_few_files_are_read_at_once() -> None:
    blobs = SlowBlobs()
    checkpoints = Checkpoints(blobs, concurrency=3)
    chunks = [b"%d" % number for number in range(10)]
    begun = await checkpoints.begin(OWNER, manifest_of(*(file_of(f"{chunk!r}", chunk) for chunk in chunks)))
    await upload_chunks(blobs, OWNER, *chunks)
    verifying = asyncio.create_task(checkpoints.verify(OWNER, begun.id))
    await until(lambda: blobs.opened == 3)
    blobs.gate.set()
    await verifying
    assert (blobs.opened, blobs.most_open) == (10, 3)


async def test_a_store_that_fails_says_nothing_about_the_checkpoint() -> None:
    blobs = FailingBlobs()
    checkpoints = Checkpoints(blobs)
    begun = await begin_and_upload(checkpoints, blobs, OWNER, "last.pt", b"one")
    with pytest.raises(BackendUnavailable):
        await checkpoints.verify(OWNER, begun.id)
    with pytest.raises(BackendUnavailable):
        await checkpoints.is_intact(OWNER.manifest_key(begun.id))
