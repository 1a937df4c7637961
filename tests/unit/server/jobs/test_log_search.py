"""A search in a log continues portion by portion, and stops in time."""

from anygpu.server.jobs.log_search import SEARCH_S, LogSearch, LogSearchResult
from anygpu.store.logs.search import LogPattern, SearchPortion
from anygpu.store.reports import ReportBatch
from anygpu.testing.memory.reports import MemoryReports
from anygpu.testing.samples.jobs import START_MS, job_id

LOG = b"".join(b"%05d %s\n" % (n, b"hit" if n % 100 == 0 else b"x" * 300) for n in range(20_000))
HITS = 200


class SteppingClock:
    """Its monotonic time advances by `step_s` at each look."""

    def __init__(self, step_s: float) -> None:
        self._step_s, self._now = step_s, 0.0

    def wall_ms(self) -> int:
        return START_MS

    def monotonic(self) -> float:
        self._now += self._step_s
        return self._now

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("a search does not sleep")


class CountingReports(MemoryReports):
    portions = 0

    async def search_log(
        self,
        job_id: str,
        attempt: int,
        pattern: LogPattern,
        *,
        after: int | None,
        before: int | None,
        limit: int,
    ) -> SearchPortion:
        self.portions += 1
        return await super().search_log(job_id, attempt, pattern, after=after, before=before, limit=limit)


async def search(
    *, step_s: float = 0.0, before: int | None = None, limit: int = 1000, count: bool = True
) -> tuple[LogSearchResult, int]:
    reports = CountingReports()
    await reports.ingest(job_id(1), 1, ReportBatch(first=1, last=1, logs=[(1, LOG)]), at_ms=START_MS)
    after = None if before is not None else 0
    found = await LogSearch(reports, SteppingClock(step_s), job_id(1), 1).run(
        LogPattern("hit"), after=after, before=before, limit=limit, count=count
    )
    return found, reports.portions


async def test_all_portions_are_searched_while_there_is_time() -> None:
    found, portions = await search()
    assert (found.total, len(found.lines), found.truncated, found.next) == (HITS, HITS, False, None)
    assert [line.number for line in found.lines[:3]] == [1, 101, 201]
    assert portions > 1


async def test_a_search_backwards_finds_the_last_lines_first() -> None:
    found, _ = await search(before=10**9, limit=3)
    assert [line.number for line in found.lines] == [19_901, 19_801, 19_701]
    assert found.total == HITS


async def test_a_search_that_takes_too_long_says_where_to_continue() -> None:
    found, portions = await search(step_s=SEARCH_S)
    assert portions == 1
    assert found.truncated
    assert found.next is not None
    assert 0 < found.total < HITS


async def test_hits_beyond_the_limit_are_counted_but_not_returned() -> None:
    found, _ = await search(limit=5)
    assert (len(found.lines), found.total, found.next) == (5, HITS, found.lines[-1].number)


async def test_without_counting_the_search_stops_at_the_limit() -> None:
    found, _ = await search(limit=5, count=False)
    assert len(found.lines) == 5
    assert found.total < HITS
