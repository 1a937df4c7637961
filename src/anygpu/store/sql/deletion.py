"""Delete jobs that have ended.

The first transaction deletes the job itself, so that nobody finds the job any more. Its events and reports are then
deleted in many small transactions, so that other writers do not wait long. If the process ends in between,
`purge_deleted_jobs` deletes the rest.
"""

# ruff: noqa: S608 - statements are built from constants; every value is a parameter

from sqlalchemy import Connection

from anygpu.errors import Conflict
from anygpu.events.fold import Recorded
from anygpu.events.types import JobDeleted
from anygpu.store import search
from anygpu.store.scope import Scope
from anygpu.store.sql import jobs
from anygpu.store.sql.engine.database import Database
from anygpu.store.sql.engine.statements import execute, execute_many, fetch_all, fetch_one
from anygpu.store.sql.event_rows import insert_events

ROWS_PER_TRANSACTION = 200  # up to 13 MB of logs

# Tables of reports, and the column by which their rows are deleted in portions.
_REPORT_TABLES = (
    ("log_chunks", "start"),
    ("log_marks", "line"),
    ("metric_batches", "first"),
    ("metric_chunks", "series"),
    ("telemetry", "number"),
    ("metric_series", "series"),
)


def delete_job(
    connection: Connection, views: jobs.ViewCache, scope: Scope, job_id: str, at_ms: int
) -> Recorded:
    """Delete the row and the search terms of a job, and append `JobDeleted`.

    A damaged job can be deleted even if it has not ended, because nothing else can be done with it.
    """
    job = jobs.load(connection, views, scope, job_id, lock=True)
    view = job.view
    if not view.is_terminal and not view.damaged:
        raise Conflict(
            f"Job {view.name or job_id} is {view.status}, and only a job that has ended can be deleted.",
            hint="Cancel it with `anygpu cancel`, and delete it when it has ended.",
        )
    event = JobDeleted(
        name=view.name, status=view.status, cost_microusd=view.cost_microusd, person=scope.person
    )
    (recorded,) = insert_events(
        connection, job.project_id, view.organisation, view.project, job_id, [event], at_ms
    )
    sql = "INSERT INTO deleted_jobs (job_id, project_id, deleted_at_ms) VALUES (?, ?, ?)"
    execute(connection, sql, (job_id, job.project_id, at_ms))
    _delete_terms(connection, job)
    row = fetch_one(connection, "SELECT status FROM jobs WHERE id = ?", (job_id,))
    jobs.add_to_count(connection, job.project_id, row[0] if row else str(view.status), -1)
    execute(connection, "DELETE FROM jobs WHERE id = ?", (job_id,))
    return recorded


def _delete_terms(connection: Connection, job: jobs.JobRow) -> None:
    if job.view.damaged:  # its terms are unknown; without them the whole index is searched
        sql = "DELETE FROM job_terms WHERE project_id = ? AND number = ?"
        execute(connection, sql, (job.project_id, job.number))
        return
    terms = search.search_terms(job.view) | frozenset(jobs.possible_terms(job.view))
    execute_many(
        connection,
        "DELETE FROM job_terms WHERE project_id = ? AND term = ? AND number = ?",
        [(job.project_id, term, job.number) for term in sorted(terms)],
    )


async def purge_events(database: Database, job_id: str) -> None:
    """Delete the events of a deleted job, except `JobDeleted`."""
    while await database.write(lambda connection: _delete_some_events(connection, job_id)):
        pass


async def purge_reports(database: Database, job_id: str) -> None:
    """Delete the logs, metrics and telemetry of a job."""
    while await database.write(lambda connection: _delete_some_reports(connection, job_id)):
        pass


async def purge_deleted_jobs(database: Database) -> None:
    """Delete what interrupted deletions have left, and reports that arrived during a deletion."""
    sql = (
        "SELECT d.job_id FROM deleted_jobs d"
        " WHERE EXISTS (SELECT 1 FROM attempts a WHERE a.job_id = d.job_id)"
        " OR EXISTS (SELECT 1 FROM events e WHERE e.job_id = d.job_id AND e.kind <> 'JobDeleted')"
    )
    for (job_id,) in await database.read(lambda connection: fetch_all(connection, sql)):
        await purge_events(database, job_id)
        await purge_reports(database, job_id)


def _delete_some_events(connection: Connection, job_id: str) -> int:
    sql = (
        "SELECT project_id, position FROM events WHERE job_id = ? AND kind <> 'JobDeleted'"
        " ORDER BY position LIMIT ?"
    )
    keys = fetch_all(connection, sql, (job_id, ROWS_PER_TRANSACTION))
    if keys:
        execute_many(connection, "DELETE FROM events WHERE project_id = ? AND position = ?", keys)
    return len(keys)


def _delete_some_reports(connection: Connection, job_id: str) -> bool:
    """Delete some rows of the job's first attempt. Return whether there may be more rows."""
    row = fetch_one(connection, "SELECT id FROM attempts WHERE job_id = ? ORDER BY number LIMIT 1", (job_id,))
    if row is None:
        return False
    for table, column in _REPORT_TABLES:
        last = (
            f"SELECT max(part.{column}) FROM (SELECT {column} FROM {table} WHERE attempt_id = ?"
            f" ORDER BY {column} LIMIT ?) part"
        )
        sql = f"DELETE FROM {table} WHERE attempt_id = ? AND {column} <= ({last})"
        if execute(connection, sql, (row[0], row[0], ROWS_PER_TRANSACTION)):
            return True
    execute(connection, "DELETE FROM attempts WHERE id = ?", (row[0],))
    return True
