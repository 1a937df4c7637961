"""Reads of the same moment are one."""

import asyncio
from collections.abc import Mapping, Sequence

import pytest

from anygpu.store.sql.reports import BatchedReader


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


async def test_what_is_asked_in_one_turn_is_read_at_once_and_what_comes_later_is_read_anew() -> None:
    shelf = Shelf()
    together = BatchedReader(shelf.read)
    first = [asyncio.create_task(together.get(key)) for key in (1, 2, 1)]
    await asyncio.sleep(0.01)
    later = asyncio.create_task(together.get(1))  # the first answer may be older than this question
    await asyncio.sleep(0.01)
    shelf.may.set()
    assert await asyncio.gather(*first, later) == ["1", "2", "1", "1"]
    assert shelf.asked == [[1, 2], [1]]


async def test_one_who_leaves_takes_nobodys_answer_away() -> None:
    shelf = Shelf()
    together = BatchedReader(shelf.read)
    leaving, staying = (asyncio.create_task(together.get(key)) for key in (1, 2))
    await asyncio.sleep(0.01)
    leaving.cancel()
    shelf.may.set()
    assert await staying == "2"


async def test_a_failed_read_is_told_to_all_who_asked_and_the_next_is_a_new_one() -> None:
    shelf = Shelf()
    shelf.may.set()
    together = BatchedReader(shelf.read)
    results = await asyncio.gather(together.get(1), together.get(-1), return_exceptions=True)
    assert [type(result) for result in results] == [OSError, OSError]
    assert await together.get(1) == "1"
    with pytest.raises(OSError, match="unreadable"):
        await together.get(-1)
