"""Rows of jobs and events: load the states of jobs, append events, and update the columns and search terms."""

# ruff: noqa: S608 - statements are built from constants; every value is a parameter

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from sqlalchemy import Connection

from anygpu.errors import Conflict, NotFound
from anygpu.events.codec import encode_view
from anygpu.events.facts import Phase, Status
from anygpu.events.fold import Recorded, step
from anygpu.events.types import Event, JobSubmitted
from anygpu.events.view import FOLD_VERSION, JobView
from anygpu.store import search
from anygpu.store.scope import AnyScope, Scope, SystemScope
from anygpu.store.sql.damage import decode_stored_view, refold
from anygpu.store.sql.engine.statements import (
    Row,
    execute,
    execute_many,
    fetch_all,
    fetch_one,
    for_update,
    is_postgres,
    placeholders,
)
from anygpu.store.sql.event_rows import insert_events

CACHED_VIEWS = 2048
_NOT_FOUND_HINT = "`anygpu ls` lists the jobs of the project."
COLUMNS = "j.id, j.project_id, j.number, j.position, j.fold_version, j.view"
_COLUMNS_UNLESS_CACHED = COLUMNS.replace(
    "j.view", "CASE WHEN j.position = ? THEN '' ELSE j.view END"
)  # a view may be long


class ViewCache:
    """A cache of the states (views) of jobs.

    A cached state is current if it has the same position (that of the newest event it includes) as the job's row. Put
    only committed states here: after a rollback, other events get the same positions.
    """

    def __init__(self) -> None:
        self._views: dict[str, JobView] = {}
        self._deleted: set[str] = set()

    def get(self, job_id: str, position: int) -> JobView | None:
        view = self._views.get(job_id)
        return view if view is not None and view.position == position else None

    def newest(self, job_id: str) -> JobView | None:
        """Return the newest cached state of a job, or None.

        It is up to date only if no other process writes to the job.
        """
        return self._views.get(job_id)

    def put(self, view: JobView) -> None:
        cached = self._views.get(view.id)
        if view.damaged or view.id in self._deleted:
            return
        if cached is not None and cached.position > view.position:
            return  # a newer view was committed meanwhile
        self._views[view.id] = view
        if len(self._views) > CACHED_VIEWS:
            for oldest in list(islice(self._views, CACHED_VIEWS // 4)):
                self._views.pop(oldest, None)

    def forget(self, job_id: str) -> None:
        """Forget a deleted job. A read that began before the deletion cannot put the job's state back."""
        self._views.pop(job_id, None)
        self._deleted.add(job_id)


@dataclass(frozen=True, slots=True)
class JobRow:
    project_id: int
    number: int
    view: JobView
    stale: bool = False  # outdated or damaged: all columns and terms must be written again


def load(
    connection: Connection, views: ViewCache, scope: AnyScope, job_id: str, *, lock: bool = False
) -> JobRow:
    """Return the current row of a job. Raises NotFound if the job is outside the scope."""
    sql, cached = f"SELECT {_COLUMNS_UNLESS_CACHED} FROM jobs j", views.newest(job_id)
    values: tuple[object, ...] = (-1 if cached is None else cached.position, search.storable_text(job_id))
    if isinstance(scope, SystemScope):
        sql += " WHERE j.id = ?"
    else:
        sql += (
            " JOIN projects p ON p.id = j.project_id WHERE j.id = ? AND p.organisation = ? AND p.project = ?"
        )
        values += (scope.organisation, scope.project)
    row = fetch_one(
        connection, sql + (" FOR UPDATE OF j" if lock and is_postgres(connection) else ""), values
    )
    if row is None:
        raise _not_found(connection, scope, job_id)
    if cached is not None and row[3:5] == (cached.position, FOLD_VERSION):
        return JobRow(row[1], row[2], cached)
    return to_job_row(connection, views, row)


def _not_found(connection: Connection, scope: AnyScope, job_id: str) -> NotFound:
    sql = (
        "SELECT d.deleted_at_ms FROM deleted_jobs d JOIN projects p ON p.id = d.project_id WHERE d.job_id = ?"
    )
    values: tuple[object, ...] = (search.storable_text(job_id),)
    if isinstance(scope, Scope):
        sql, values = (
            sql + " AND p.organisation = ? AND p.project = ?",
            (*values, scope.organisation, scope.project),
        )
    if fetch_one(connection, sql, values):
        return NotFound(f"Job {job_id} was deleted.", hint=_NOT_FOUND_HINT)
    return NotFound(f"There is no job with the id {job_id} in this project.", hint=_NOT_FOUND_HINT)


def is_deleted(connection: Connection, job_id: str) -> bool:
    return fetch_one(connection, "SELECT 1 FROM deleted_jobs WHERE job_id = ?", (job_id,)) is not None


def to_job_row(connection: Connection, views: ViewCache, row: Row) -> JobRow:
    """Return the row of a job. If its stored state is outdated or damaged, the state is computed from the events."""
    job_id, project_id, number, position, fold_version, data = row
    if fold_version == FOLD_VERSION:
        view = views.get(job_id, position) or decode_stored_view(job_id, position, data)
        if view is not None:
            return JobRow(project_id, number, view)
    return JobRow(project_id, number, refold(connection, job_id), stale=True)


def read_live(connection: Connection, views: ViewCache) -> list[JobView]:
    """Return the states of all jobs that have not ended, oldest first.

    States that are current in the cache are not read from the database.
    """
    sql = "SELECT id, position, fold_version FROM jobs WHERE live ORDER BY submitted_at_ms, id"
    listed = fetch_all(connection, sql)
    by_id = {
        job_id: view
        for job_id, position, version in listed
        if version == FOLD_VERSION and (view := views.get(job_id, position)) is not None
    }
    missing = [job_id for job_id, _, _ in listed if job_id not in by_id]
    for start in range(0, len(missing), 500):
        part = missing[start : start + 500]
        sql = f"SELECT {COLUMNS} FROM jobs j WHERE j.id IN ({placeholders(part)})"
        by_id |= {row[0]: to_job_row(connection, views, row).view for row in fetch_all(connection, sql, part)}
    return [by_id[job_id] for job_id, _, _ in listed]


def find_project(connection: Connection, scope: Scope) -> int | None:
    sql = "SELECT id FROM projects WHERE organisation = ? AND project = ?"
    row = fetch_one(connection, sql, (scope.organisation, scope.project))
    return int(row[0]) if row else None


def lock_project(connection: Connection, scope: Scope) -> int:
    """Lock the project's row, which counts its events, until the transaction ends.

    Return the project's id.
    """
    sql = "SELECT id FROM projects WHERE organisation = ? AND project = ?" + for_update(connection)
    names = (scope.organisation, scope.project)
    row = fetch_one(connection, sql, names)
    if row is None:
        insert_sql = (
            "INSERT INTO projects (organisation, project, head) VALUES (?, ?, 0) ON CONFLICT DO NOTHING"
        )
        execute(connection, insert_sql, names)
        row = fetch_one(connection, sql, names)
    if row is None:
        raise Conflict(f"The project {scope.project} is being deleted. Submit the job to another project.")
    return int(row[0])


def find_by_idempotency_key(connection: Connection, project: int, key: str | None) -> str | None:
    sql = "SELECT job_id FROM idempotency_keys WHERE project_id = ? AND key = ?"
    row = fetch_one(connection, sql, (project, key)) if key is not None else None
    if row is not None and is_deleted(connection, row[0]):
        raise Conflict(
            f"Job {row[0]}, which was submitted with this idempotency key, was deleted.",
            hint="To run it again, submit it with another key.",
        )
    return str(row[0]) if row else None


def insert(
    connection: Connection, project: int, scope: Scope, job_id: str, event: JobSubmitted, at_ms: int
) -> Recorded:
    """Append the first event of a job, and insert its row, search terms and idempotency key."""
    if fetch_one(connection, "SELECT 1 FROM jobs WHERE id = ?", (job_id,)) or is_deleted(connection, job_id):
        raise Conflict(f"A job with the id {job_id} already exists.", hint="Submit it again with a new id.")
    (recorded,) = insert_events(
        connection, project, scope.organisation, scope.project, job_id, [event], at_ms
    )
    view = step(None, recorded)
    execute(
        connection,
        "INSERT INTO jobs (position, ended_at_ms, status, phase, live, fold_version, view, id, project_id,"
        " number, submitted_at_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*_view_columns(view), job_id, project, recorded.position, at_ms),
    )
    _add_terms(connection, project, recorded.position, search.search_terms(view))
    add_to_count(connection, project, str(view.status), 1)
    if event.spec.idempotency_key is not None:
        sql = "INSERT INTO idempotency_keys (project_id, key, job_id) VALUES (?, ?, ?)"
        execute(connection, sql, (project, event.spec.idempotency_key, job_id))
    return recorded


def append(
    connection: Connection, job: JobRow, events: Sequence[Event], at_ms: int
) -> tuple[JobView, tuple[Recorded, ...]]:
    view = job.view
    recorded = insert_events(
        connection, job.project_id, view.organisation, view.project, view.id, events, at_ms
    )
    for each in recorded:
        view = step(view, each)
    save(connection, job, view)
    return view, recorded


def save(connection: Connection, job: JobRow, view: JobView) -> None:
    """Write the state of a job, and update its search terms and the counts that have changed."""
    if job.stale or view.status != job.view.status:
        _move_count(connection, job.project_id, view)
    execute(
        connection,
        "UPDATE jobs SET position = ?, ended_at_ms = ?, status = ?, phase = ?, live = ?, fold_version = ?,"
        " view = ? WHERE id = ?",
        (*_view_columns(view), view.id),
    )
    now, before = _terms_to_write(job, view)
    gone = [(job.project_id, term, job.number) for term in sorted(before - now)]
    if gone:
        execute_many(
            connection, "DELETE FROM job_terms WHERE project_id = ? AND term = ? AND number = ?", gone
        )
    _add_terms(connection, job.project_id, job.number, now if job.stale else now - before)


def _terms_to_write(job: JobRow, view: JobView) -> tuple[frozenset[str], frozenset[str]]:
    """Return the terms of the view, and those that the row may have; terms that cannot have changed are left out."""
    if job.stale:
        return search.search_terms(view), search.search_terms(job.view) | frozenset(possible_terms(view))
    if search.editable_fields(view) != search.editable_fields(job.view):
        return search.search_terms(view), search.search_terms(job.view)
    return search.changing_terms(view), search.changing_terms(job.view)


def _move_count(connection: Connection, project: int, view: JobView) -> None:
    """Count a job under its new status. The row still has the old one."""
    row = fetch_one(connection, "SELECT status FROM jobs WHERE id = ?", (view.id,))
    if row is not None and row[0] != str(view.status):
        add_to_count(connection, project, row[0], -1)
        add_to_count(connection, project, str(view.status), 1)


def add_to_count(connection: Connection, project: int, status: str, number: int) -> None:
    execute(
        connection,
        "INSERT INTO job_counts (project_id, status, count) VALUES (?, ?, ?)"
        " ON CONFLICT (project_id, status) DO UPDATE SET count = job_counts.count + excluded.count",
        (project, status, number),
    )


def possible_terms(view: JobView) -> Iterable[str]:
    """Yield all search terms for status, phase and backend that the job may have had at any time."""
    yield from (f"status:{status}" for status in Status)
    yield from (f"phase:{phase}" for phase in Phase)
    yield from (search.make_term("backend", attempt.offer.backend) for attempt in view.attempts)


def _add_terms(connection: Connection, project: int, number: int, terms: Iterable[str]) -> None:
    many = [(project, term, number) for term in sorted(terms)]
    sql = "INSERT INTO job_terms (project_id, term, number) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
    if many:
        execute_many(connection, sql, many)


def _view_columns(view: JobView) -> tuple[object, ...]:
    return (
        view.position,
        view.ended_at_ms,
        str(view.status),
        str(view.phase),
        not view.is_terminal,
        FOLD_VERSION,
        encode_view(view).decode(),
    )
