"""Reads of the same moment are one."""

import asyncio
from collections.abc import Mapping, Sequence

import pytest

from anygpu.store.sql.report_store.reports import BatchedReader


class Shelf:
    """Says what it was asked, and answers when it may."""

    def __init__(self) -> None:
        self.asked: list[list[int]] = []
        self.may = asyncio.Event()

    async def read(self, keys: Sequence[int]) -> Mapping[int, str]:
        self.asked.append([*keys])
        await self.may.wait()
        if -1 in keys:
            raise OSError("unreadable")
        return {key: str(key) for key in keys}


async def test_reads_of_one_loop_iteration_are_one_query_and_later_ones_another() -> None:
    shelf = Shelf()
    together = BatchedReader(shelf.read)
    first = [asyncio.create_task(together.get(key)) for key in (1, 2, 1)]
    await asyncio.sleep(0.01)
    later = asyncio.create_task(together.get(1))  # the first answer may be older than this question
    await asyncio.sleep(0.01)
    shelf.may.set()
    assert await asyncio.gather(*first, later) == ["1", "2", "1", "1"]
    assert shelf.asked == [[1, 2], [1]]


async def test_a_cancelled_caller_does_not_cancel_the_read_of_others() -> None:
    shelf = Shelf()
    together = BatchedReader(shelf.read)
    leaving, staying = (asyncio.create_task(together.get(key)) for key in (1, 2))
    await asyncio.sleep(0.01)
    leaving.cancel()
    shelf.may.set()
    assert await staying == "2"


async def test_a_failed_read_fails_for_all_callers_and_the_next_read_is_new() -> None:
    shelf = Shelf()
    shelf.may.set()
    together = BatchedReader(shelf.read)
    results = await asyncio.gather(together.get(1), together.get(-1), return_exceptions=True)
    assert [type(result) for result in results] == [OSError, OSError]
    assert await together.get(1) == "1"
    with pytest.raises(OSError, match="unreadable"):
        await together.get(-1)
