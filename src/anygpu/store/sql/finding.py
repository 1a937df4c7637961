"""Pages of jobs by any mix of filters, from an inverted index: (project, term, number of the job).

The rarest group of terms is walked, newest first, and the others are looked up for each job it names. What cannot
be a term (ids by their beginning, times) becomes a range of numbers first, because both grow with the numbers.
"""

# ruff: noqa: S608 - statements are put together from our own words; every value is a parameter

from dataclasses import dataclass

from sqlalchemy import Connection

from anygpu.events.view import JobView
from anygpu.store import search
from anygpu.store.journal import JobPage, JobQuery
from anygpu.store.scope import Scope
from anygpu.store.sql.jobs import COLUMNS, Views, project_id, to_job
from anygpu.store.sql.statements import marks, row, rows

MOST = 1000  # jobs on a page
# How far terms are counted to learn which is rarest: a little, and further only when all are frequent.
ENOUGH = (2_000, 10_000)
_LAST = 2**62


@dataclass(frozen=True, slots=True)
class _Range:
    """Numbers to look at, ends included, and what else must hold for a row of jobs."""

    low: int
    high: int
    where: str = ""
    values: tuple[object, ...] = ()


def find(connection: Connection, views: Views, scope: Scope, query: JobQuery) -> JobPage:
    before = search.from_cursor(query.cursor) if query.cursor is not None else _LAST
    limit = min(max(query.limit, 1), MOST)
    project = project_id(connection, scope)
    span = _span(connection, project, query, before - 1) if project is not None else None
    if project is None or span is None:
        return JobPage(jobs=(), next_cursor=None)
    numbers = _numbers(connection, project, search.wanted(query), span, limit + 1)
    jobs = _jobs(connection, views, project, numbers[:limit])
    more = search.to_cursor(numbers[limit - 1]) if len(numbers) > limit else None
    return JobPage(jobs=jobs, next_cursor=more)


def _jobs(connection: Connection, views: Views, project: int, numbers: list[int]) -> tuple[JobView, ...]:
    sql = f"SELECT {COLUMNS} FROM jobs j WHERE j.project_id = ? AND j.number IN ({marks(numbers)})"
    found = rows(connection, sql + " ORDER BY j.number DESC", (project, *numbers))
    jobs = [to_job(connection, views, one) for one in found]
    return tuple(job.view for job in jobs)


def _span(connection: Connection, project: int, query: JobQuery, high: int) -> _Range | None:
    """None when nothing can fit."""
    where, values = _conditions(query)
    if where is None:
        return None
    if not where:
        return _Range(1, high)
    sql = f"SELECT min(j.number), max(j.number) FROM jobs j WHERE j.project_id = ?{where}"
    found = row(connection, sql, (project, *values))
    if found is None or found[0] is None:
        return None
    return _Range(int(found[0]), min(int(found[1]), high), where, values)


def _conditions(query: JobQuery) -> tuple[str | None, tuple[object, ...]]:
    where = ""
    values: tuple[object, ...] = ()
    if query.id_prefix is not None:
        start = search.id_start(query.id_prefix)
        if start is None:
            return None, ()
        where, values = (
            " AND j.id >= ? AND j.id < ?",
            (start, start + "g"),
        )  # g: after every hexadecimal digit
    if query.submitted_after_ms is not None:
        where, values = where + " AND j.submitted_at_ms >= ?", (*values, query.submitted_after_ms)
    if query.submitted_before_ms is not None:
        where, values = where + " AND j.submitted_at_ms < ?", (*values, query.submitted_before_ms)
    return where, values


def _numbers(
    connection: Connection, project: int, groups: list[tuple[str, ...]], span: _Range, limit: int
) -> list[int]:
    if not groups:
        return _walk_jobs(connection, project, span, limit)
    count, (rarest, *others) = _rarest_first(connection, project, groups, span)
    if not count:
        return []
    found: list[int] = []
    for term in rarest:
        found += _walk_term(connection, project, term, others, span, limit)
    return sorted(found, reverse=True)[:limit]


def _rarest_first(
    connection: Connection, project: int, groups: list[tuple[str, ...]], span: _Range
) -> tuple[int, list[tuple[str, ...]]]:
    """How many jobs the rarest group names, as far as was counted, and all groups, that one first."""
    if len(groups) == 1:
        return ENOUGH[0], groups
    for enough in ENOUGH:
        counted = sorted((_count(connection, project, group, span, enough), group) for group in groups)
        if counted[0][0] < enough:
            break
    return counted[0][0], [group for _, group in counted]


def _count(connection: Connection, project: int, group: tuple[str, ...], span: _Range, enough: int) -> int:
    sql = (
        "SELECT count(*) FROM (SELECT 1 FROM job_terms t WHERE t.project_id = ?"
        f" AND t.term IN ({marks(group)}) AND t.number BETWEEN ? AND ? LIMIT ?) counted"
    )
    found = row(connection, sql, (project, *group, span.low, span.high, enough))
    return int(found[0]) if found else 0


def _walk_jobs(connection: Connection, project: int, span: _Range, limit: int) -> list[int]:
    sql = (
        f"SELECT j.number FROM jobs j WHERE j.project_id = ? AND j.number BETWEEN ? AND ?{span.where}"
        " ORDER BY j.number DESC LIMIT ?"
    )
    return [int(one[0]) for one in rows(connection, sql, (project, span.low, span.high, *span.values, limit))]


def _walk_term(
    connection: Connection,
    project: int,
    term: str,
    others: list[tuple[str, ...]],
    span: _Range,
    limit: int,
) -> list[int]:
    sql = (
        "SELECT d.number FROM job_terms d WHERE d.project_id = ? AND d.term = ? AND d.number BETWEEN ? AND ?"
    )
    values: list[object] = [project, term, span.low, span.high]
    for group in others:
        sql += (
            " AND EXISTS (SELECT 1 FROM job_terms t WHERE t.project_id = ?"
            f" AND t.term IN ({marks(group)}) AND t.number = d.number)"
        )
        values += [project, *group]
    if span.where:
        sql += (
            f" AND EXISTS (SELECT 1 FROM jobs j WHERE j.project_id = ? AND j.number = d.number{span.where})"
        )
        values += [project, *span.values]
    sql += " ORDER BY d.number DESC LIMIT ?"
    return [int(one[0]) for one in rows(connection, sql, (*values, limit))]
