"""Search a log portion by portion, for a limited time."""

from collections.abc import Sequence
from dataclasses import dataclass

from anygpu.control.clock import Clock
from anygpu.store.logs.page import LogLine
from anygpu.store.logs.search import LogPattern, SearchPortion
from anygpu.store.reports import Reports

SEARCH_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSearchResult:
    """The first matching lines, and how many there are in the part that was searched."""

    lines: Sequence[LogLine]
    total: int
    truncated: bool  # not everything was searched
    next: int | None  # the next `after` or `before`


class LogSearch:
    """A search in the log of one attempt. Each portion is a short read, so other requests do not wait for it."""

    def __init__(self, reports: Reports, clock: Clock, job_id: str, attempt: int) -> None:
        self._reports, self._clock = reports, clock
        self._job_id, self._attempt = job_id, attempt

    async def run(
        self, pattern: LogPattern, *, after: int | None, before: int | None, limit: int, count: bool
    ) -> LogSearchResult:
        """Search until the end of the log, or for `SEARCH_S`. If `count` is false, stop at `limit` hits."""
        lines: list[LogLine] = []
        total, deadline = 0, self._clock.monotonic() + SEARCH_S
        while True:
            portion = await self._search(pattern, after, before, limit - len(lines))
            lines += portion.lines
            total += portion.count
            if portion.next is None or self._clock.monotonic() >= deadline:
                break
            if total >= limit and not count:
                break
            after, before = (None, portion.next) if before is not None else (portion.next, None)
        following = lines[-1].number if total > len(lines) else portion.next
        return LogSearchResult(lines=lines, total=total, truncated=portion.next is not None, next=following)

    async def _search(
        self, pattern: LogPattern, after: int | None, before: int | None, limit: int
    ) -> SearchPortion:
        return await self._reports.search_log(
            self._job_id, self._attempt, pattern, after=after, before=before, limit=limit
        )
