"""Copy all blobs to another blob store. A copy can be repeated: what is already there is not copied again."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from anygpu.errors import BlobMissing
from anygpu.store.blobs.contract import BlobInfo, Blobs
from anygpu.store.blobs.keys import ROOT
from anygpu.store.blobs.trash import TRASH
from anygpu.store.identity import ID_KEY
from anygpu.store.move.rows import MoveRefused

COPIES_AT_ONCE = 8
OnBlob = Callable[[int, int], None]  # copied blobs, all blobs


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobSummary:
    """How many blobs the store has, their bytes, and how many this run has copied."""

    blobs: int
    size: int
    copied: int


async def copy_blobs(source: Blobs, target: Blobs, on_blob: OnBlob) -> BlobSummary:
    """Copy every blob that the target does not have, and verify that it then has all of them."""
    await _claim_target(source, target)
    wanted = [info async for info in _all_blobs(source)]
    existing = {info.key: info.size async for info in _all_blobs(target)}
    missing = [info for info in wanted if existing.get(info.key) != info.size]
    waiting, done = iter(missing), len(wanted) - len(missing)

    async def copy_waiting() -> None:
        nonlocal done
        for info in waiting:
            await target.put(info.key, source.stream(info.key))
            done += 1
            on_blob(done, len(wanted))

    await _run_until_first_error([copy_waiting() for _ in range(COPIES_AT_ONCE)])
    await _verify(wanted, target)
    return BlobSummary(blobs=len(wanted), size=sum(info.size for info in wanted), copied=len(missing))


async def _run_until_first_error(work: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Run coroutines at the same time. If one fails, cancel the others and raise its error."""
    tasks = [asyncio.create_task(each) for each in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _claim_target(source: Blobs, target: Blobs) -> None:
    """Give the target the id of the source, before anything is copied. Refuse a target that belongs to others."""
    ours, theirs = await _read_id(source), await _read_id(target)
    if ours is None:
        raise MoveRefused(
            "The stored files do not say which database they belong to.",
            hint="Start the server once with the present settings, stop it, and move it then.",
        )
    if theirs is None and await _has_blobs(target):
        raise MoveRefused("The target blob store is not empty.", hint="Choose another bucket or prefix.")
    if theirs not in (None, ours):
        raise MoveRefused(
            "The target blob store belongs to another database.", hint="Choose another bucket or prefix."
        )
    if theirs is None:
        await target.put(ID_KEY, ours)


async def _verify(wanted: list[BlobInfo], target: Blobs) -> None:
    existing = {info.key: info.size async for info in _all_blobs(target)}
    lost = [info.key for info in wanted if existing.get(info.key) != info.size]
    if lost:
        raise MoveRefused(
            f"{len(lost)} files are missing in the target blob store or have another size, such as {lost[0]}.",
            hint="Run the same command again; it copies only what is missing.",
        )


async def _all_blobs(blobs: Blobs) -> AsyncIterator[BlobInfo]:
    for folder in (ROOT, TRASH):
        async for info in blobs.list(folder):
            yield info


async def _has_blobs(blobs: Blobs) -> bool:
    async for _ in _all_blobs(blobs):
        return True
    return False


async def _read_id(blobs: Blobs) -> bytes | None:
    try:
        return await blobs.get(ID_KEY)
    except BlobMissing:
        return None
