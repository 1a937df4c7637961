"""Find jobs by any combination of filters, with an inverted index: (project, search term, job number).

`store.search` translates a query into groups of terms. The search reads the jobs that match the group with the fewest
jobs, newest first, and checks each job against the other groups. Filters by id prefix and time are first converted to a
range of job numbers, because ids and times grow with the job number.
"""

# ruff: noqa: S608 - statements are built from constants; every value is a parameter
from collections import Counter
from dataclasses import dataclass

from sqlalchemy import Connection

from anygpu.events.view import JobView
from anygpu.store import search
from anygpu.store.journal import COUNT_LIMIT, JobCounts, JobPage, JobQuery, has_filters
from anygpu.store.scope import Scope
from anygpu.store.sql.engine.statements import fetch_all, fetch_one, placeholders
from anygpu.store.sql.jobs import COLUMNS, ViewCache, find_project, to_job_row

MAX_PAGE_SIZE = 1000  # jobs on a page
# Terms are counted up to the first limit to find the rarest group, and up to the second if all are frequent.
COUNT_LIMITS = (2_000, 10_000)
NUMBERS_PER_READ = 500
_MAX_NUMBER = 2**62


@dataclass(frozen=True, slots=True)
class _NumberRange:
    """A range of job numbers (both ends included), and further SQL conditions on rows of `jobs`."""

    low: int
    high: int
    where: str = ""
    values: tuple[object, ...] = ()


def find_jobs(connection: Connection, views: ViewCache, scope: Scope, query: JobQuery) -> JobPage:
    before = search.decode_cursor(query.cursor) if query.cursor is not None else _MAX_NUMBER
    limit = min(max(query.limit, 1), MAX_PAGE_SIZE)
    project = find_project(connection, scope)
    span = _number_range(connection, project, query, before - 1) if project is not None else None
    if project is None or span is None:
        return JobPage(jobs=(), next_cursor=None)
    numbers = _matching_numbers(connection, project, search.query_groups(query), span, limit + 1)
    jobs = _read_views(connection, views, project, numbers[:limit])
    more = search.encode_cursor(numbers[limit - 1]) if len(numbers) > limit else None
    return JobPage(jobs=jobs, next_cursor=more)


def count_jobs(connection: Connection, scope: Scope, query: JobQuery) -> JobCounts:
    project = find_project(connection, scope)
    if project is None:
        return JobCounts(by_status={})
    if not has_filters(query):
        sql = "SELECT status, count FROM job_counts WHERE project_id = ?"
        return JobCounts(by_status={row[0]: row[1] for row in fetch_all(connection, sql, (project,))})
    span = _number_range(connection, project, query, _MAX_NUMBER)
    if span is None:
        return JobCounts(by_status={})
    groups = search.query_groups(query)
    numbers = _matching_numbers(connection, project, groups, span, COUNT_LIMIT + 1)
    is_exact = len(numbers) <= COUNT_LIMIT
    counts = _count_by_status(connection, project, numbers[:COUNT_LIMIT])
    if not is_exact:  # there are few active jobs, so they are always counted all
        active = [*groups, tuple(f"status:{status}" for status in search.ACTIVE)]
        numbers = _matching_numbers(connection, project, active, span, COUNT_LIMIT)
        found = _count_by_status(connection, project, numbers)
        counts.update({status: found[status] - counts[status] for status in search.ACTIVE})
    return JobCounts(by_status=counts, is_exact=is_exact)


def _count_by_status(connection: Connection, project: int, numbers: list[int]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for start in range(0, len(numbers), NUMBERS_PER_READ):
        part = numbers[start : start + NUMBERS_PER_READ]
        sql = (
            "SELECT j.status, count(*) FROM jobs j WHERE j.project_id = ?"
            f" AND j.number IN ({placeholders(part)}) GROUP BY j.status"
        )
        counts.update({row[0]: row[1] for row in fetch_all(connection, sql, (project, *part))})
    return counts


def _read_views(
    connection: Connection, views: ViewCache, project: int, numbers: list[int]
) -> tuple[JobView, ...]:
    sql = f"SELECT {COLUMNS} FROM jobs j WHERE j.project_id = ? AND j.number IN ({placeholders(numbers)})"
    rows = fetch_all(connection, sql + " ORDER BY j.number DESC", (project, *numbers))
    return tuple(to_job_row(connection, views, row).view for row in rows)


def _number_range(connection: Connection, project: int, query: JobQuery, high: int) -> _NumberRange | None:
    """Return the range of job numbers that can match, or None if no job can match."""
    where, values = _conditions(query)
    if where is None:
        return None
    if not where:
        return _NumberRange(1, high)
    sql = f"SELECT min(j.number), max(j.number) FROM jobs j WHERE j.project_id = ?{where}"
    row = fetch_one(connection, sql, (project, *values))
    if row is None or row[0] is None:
        return None
    return _NumberRange(int(row[0]), min(int(row[1]), high), where, values)


def _conditions(query: JobQuery) -> tuple[str | None, tuple[object, ...]]:
    where = ""
    values: tuple[object, ...] = ()
    if query.id_prefix is not None:
        start = search.normalize_id_prefix(query.id_prefix)
        if start is None:
            return None, ()
        # "g" sorts after every hexadecimal digit.
        where, values = " AND j.id >= ? AND j.id < ?", (start, start + "g")
    if query.id_suffix is not None:
        end = search.normalize_id_suffix(query.id_suffix)
        if end is None:
            return None, ()
        where, values = where + " AND j.id LIKE ?", (*values, f"%{end}")
    if query.submitted_after_ms is not None:
        where, values = where + " AND j.submitted_at_ms >= ?", (*values, query.submitted_after_ms)
    if query.submitted_before_ms is not None:
        where, values = where + " AND j.submitted_at_ms < ?", (*values, query.submitted_before_ms)
    return where, values


def _matching_numbers(
    connection: Connection, project: int, groups: list[tuple[str, ...]], span: _NumberRange, limit: int
) -> list[int]:
    if not groups:
        return _list_numbers(connection, project, span, limit)
    count, (rarest, *others) = _sort_by_frequency(connection, project, groups, span)
    if not count:
        return []
    numbers: list[int] = []
    for term in rarest:
        numbers += _list_numbers_with_term(connection, project, term, others, span, limit)
    return sorted(numbers, reverse=True)[:limit]


def _sort_by_frequency(
    connection: Connection, project: int, groups: list[tuple[str, ...]], span: _NumberRange
) -> tuple[int, list[tuple[str, ...]]]:
    """Sort groups of search terms by how many jobs have a term of the group, fewest first.

    Return the number of jobs for the first group, and the sorted groups. Jobs are counted only up to a limit, and a
    single group is not counted.
    """
    if len(groups) == 1:
        return COUNT_LIMITS[0], groups
    for max_count in COUNT_LIMITS:
        counted = sorted(
            (_count_up_to(connection, project, group, span, max_count), group) for group in groups
        )
        if counted[0][0] < max_count:
            break
    return counted[0][0], [group for _, group in counted]


def _count_up_to(
    connection: Connection, project: int, group: tuple[str, ...], span: _NumberRange, max_count: int
) -> int:
    sql = (
        "SELECT count(*) FROM (SELECT 1 FROM job_terms t WHERE t.project_id = ?"
        f" AND t.term IN ({placeholders(group)}) AND t.number BETWEEN ? AND ? LIMIT ?) counted"
    )
    row = fetch_one(connection, sql, (project, *group, span.low, span.high, max_count))
    return int(row[0]) if row else 0


def _list_numbers(connection: Connection, project: int, span: _NumberRange, limit: int) -> list[int]:
    sql = (
        f"SELECT j.number FROM jobs j WHERE j.project_id = ? AND j.number BETWEEN ? AND ?{span.where}"
        " ORDER BY j.number DESC LIMIT ?"
    )
    return [
        int(row[0]) for row in fetch_all(connection, sql, (project, span.low, span.high, *span.values, limit))
    ]


def _list_numbers_with_term(
    connection: Connection,
    project: int,
    term: str,
    others: list[tuple[str, ...]],
    span: _NumberRange,
    limit: int,
) -> list[int]:
    sql = (
        "SELECT d.number FROM job_terms d WHERE d.project_id = ? AND d.term = ? AND d.number BETWEEN ? AND ?"
    )
    values: list[object] = [project, term, span.low, span.high]
    for group in others:
        sql += (
            " AND EXISTS (SELECT 1 FROM job_terms t WHERE t.project_id = ?"
            f" AND t.term IN ({placeholders(group)}) AND t.number = d.number)"
        )
        values += [project, *group]
    if span.where:
        sql += (
            f" AND EXISTS (SELECT 1 FROM jobs j WHERE j.project_id = ? AND j.number = d.number{span.where})"
        )
        values += [project, *span.values]
    sql += " ORDER BY d.number DESC LIMIT ?"
    return [int(row[0]) for row in fetch_all(connection, sql, (*values, limit))]
