"""A query that many callers share: its result, its failure, and how old a result may be."""

import asyncio
import time

import pytest

from anygpu.backends.batch.shared_query import SharedQuery
from anygpu.errors import BackendUnavailable


class Engine:
    """Answers a query when it is told to."""

    def __init__(self) -> None:
        self.asked = 0
        self.began = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.is_down = False

    async def answer(self) -> int | None:
        self.asked += 1
        self.began.set()
        await self.may_answer.wait()
        if self.is_down:
            raise BackendUnavailable("The engine does not answer")
        return None


async def test_callers_at_the_same_time_share_one_failure() -> None:
    engine = Engine()
    engine.is_down = True
    query = SharedQuery(engine.answer)
    long_ago = time.monotonic() - 15
    callers = [asyncio.create_task(query.get(long_ago)) for _ in range(100)]
    await engine.began.wait()
    engine.may_answer.set()
    failures = await asyncio.gather(*callers, return_exceptions=True)
    assert {type(failure) for failure in failures} == {BackendUnavailable}
    assert engine.asked == 1


async def test_callers_that_need_a_newer_result_share_the_next_query() -> None:
    engine = Engine()
    query = SharedQuery(engine.answer)
    first = asyncio.create_task(query.get(time.monotonic() - 15))
    await engine.began.wait()
    now = time.monotonic()
    callers = [asyncio.create_task(query.get(now)) for _ in range(10)]
    await asyncio.sleep(0)
    engine.may_answer.set()
    await asyncio.gather(first, *callers)
    assert engine.asked == 2


async def test_a_result_is_used_until_it_is_too_old_also_if_it_is_none() -> None:
    engine = Engine()
    engine.may_answer.set()
    query = SharedQuery(engine.answer)
    assert await query.get(time.monotonic() - 15) is None
    await query.get(query.result_at - 1)
    assert engine.asked == 1
    await query.get(query.result_at)
    assert engine.asked == 2


async def test_a_caller_that_is_cancelled_does_not_end_the_query_of_the_others() -> None:
    engine = Engine()
    query = SharedQuery(engine.answer)
    long_ago = time.monotonic() - 15
    gone, stays = (asyncio.create_task(query.get(long_ago)) for _ in range(2))
    await engine.began.wait()
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    engine.may_answer.set()
    assert await stays is None
    assert engine.asked == 1
