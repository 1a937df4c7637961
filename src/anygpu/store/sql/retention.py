"""Delete logs, metrics and telemetry of jobs that ended long ago (`anygpu gc`).

The jobs, their events and the summary of each metric are kept. The number of log bytes and metric points is kept too,
so that a client that streams such a job knows where the stream ends.
"""

# ruff: noqa: S608 - statements are built from constants; every value is a parameter

from dataclasses import dataclass

from sqlalchemy import Connection

from anygpu.store.sql.engine.database import Database
from anygpu.store.sql.engine.statements import Row, execute, fetch_all, fetch_one, placeholders

ATTEMPTS_PER_TRANSACTION = 20  # small, so that reports do not wait long for the transaction

_OLD = (
    " FROM attempts a JOIN jobs j ON j.id = a.job_id"
    " WHERE j.ended_at_ms IS NOT NULL AND j.ended_at_ms < ? AND NOT a.pruned"
)
_PRUNED_TABLES = ("log_chunks", "log_marks", "metric_batches", "metric_chunks", "telemetry")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionResult:
    """Amount of deleted data. In a dry run, the amount that would be deleted."""

    jobs: int = 0
    attempts: int = 0
    log_bytes: int = 0
    metric_points: int = 0


async def prune(database: Database, *, ended_before_ms: int, dry_run: bool = False) -> RetentionResult:
    """Delete the reports of jobs that ended before `ended_before_ms`.

    The reports are deleted in several transactions. If the call is interrupted, the next call deletes the
    rest.
    """
    removed = await database.read(lambda connection: _count(connection, ended_before_ms))
    if not dry_run:
        while await database.write(lambda connection: _prune_some(connection, ended_before_ms)):
            pass
    return removed


def _count(connection: Connection, ended_before_ms: int) -> RetentionResult:
    sql = (
        "SELECT count(DISTINCT a.job_id), count(*), coalesce(sum(a.log_stored), 0),"
        " coalesce(sum(a.metric_points), 0)" + _OLD
    )
    row: Row = fetch_one(connection, sql, (ended_before_ms,)) or (0, 0, 0, 0)
    jobs, attempts, log_bytes, points = map(int, row)
    return RetentionResult(jobs=jobs, attempts=attempts, log_bytes=log_bytes, metric_points=points)


def _prune_some(connection: Connection, ended_before_ms: int) -> int:
    rows = fetch_all(connection, f"SELECT a.id{_OLD} LIMIT {ATTEMPTS_PER_TRANSACTION}", (ended_before_ms,))
    ids = [int(row[0]) for row in rows]
    for table in _PRUNED_TABLES:
        execute(connection, f"DELETE FROM {table} WHERE attempt_id IN ({placeholders(ids)})", ids)
    execute(
        connection, f"UPDATE metric_series SET tail_count = 0 WHERE attempt_id IN ({placeholders(ids)})", ids
    )
    execute(
        connection,
        "UPDATE attempts SET pruned = TRUE, sorted_points = metric_points, loose_batches = 0, log_stored = 0,"
        " log_head = 0, log_kept_from = log_bytes, log_joined = log_bytes, loose_logs = 0"
        f" WHERE id IN ({placeholders(ids)})",
        ids,
    )
    return len(ids)
