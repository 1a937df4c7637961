"""Deleting jobs in SQL: in small transactions, and to the end even if the process stops in between."""

import pytest
from sqlalchemy import Connection

from anygpu.errors import NotFound
from anygpu.events.types import JobWaited
from anygpu.store.sql import deletion
from anygpu.store.sql.deletion import ROWS_PER_TRANSACTION, purge_deleted_jobs
from anygpu.store.sql.engine.database import Database
from anygpu.store.sql.engine.statements import fetch_all
from anygpu.store.sql.engine.tables import METADATA
from anygpu.store.sql.journal import SqlJournal
from anygpu.store.sql.report_store.reports import SqlReports
from anygpu.testing.contracts.journal import append, submit
from anygpu.testing.contracts.reports import points, report
from anygpu.testing.samples.jobs import LAB, START_MS, interrupted_job, job_id

JOB = job_id(1)
# Two counts of zero, and what the two attempts cost.
KEPT = {"projects": 1, "events": 1, "deleted_jobs": 1, "job_counts": 2, "costs": 2}


async def ended_with_reports(database: Database) -> SqlJournal:
    journal, reports = SqlJournal(database), SqlReports(database)
    await submit(journal, 1)
    await append(journal, JOB, *(JobWaited(reason=str(n)) for n in range(2 * ROWS_PER_TRANSACTION)))
    for seq in range(1, 20):
        await report(reports, seq, logs=b"x" * 100, telemetry={"cpu": seq})
    await report(reports, 20, points=[point for n in range(300) for point in points(1.0, name=f"m{n}")])
    await append(journal, JOB, *interrupted_job())
    return journal


def row_counts(connection: Connection) -> dict[str, int]:
    """Count the rows of each table that has rows. `properties` has no rows of jobs."""
    counts = {
        table: fetch_all(connection, f"SELECT count(*) FROM {table}")[0][0]
        for table in METADATA.tables
        if table != "properties"
    }
    return {table: count for table, count in counts.items() if count}


async def test_nothing_but_the_deletion_remains_in_any_table(database: Database) -> None:
    journal = await ended_with_reports(database)
    await journal.delete(LAB, JOB, at_ms=START_MS)
    await SqlReports(database).delete(JOB)
    assert await database.read(row_counts) == KEPT


async def test_the_next_purge_finishes_an_interrupted_deletion(database: Database) -> None:
    journal = await ended_with_reports(database)
    await database.write(lambda c: deletion.delete_job(c, journal._views, LAB, JOB, START_MS))
    assert (await database.read(row_counts))["events"] > ROWS_PER_TRANSACTION
    with pytest.raises(NotFound, match="was deleted"):
        await SqlJournal(database).view(LAB, JOB)
    await purge_deleted_jobs(database)
    assert await database.read(row_counts) == KEPT
    await purge_deleted_jobs(database)


async def test_one_transaction_deletes_a_limited_number_of_rows(database: Database) -> None:
    journal = await ended_with_reports(database)
    await database.write(lambda c: deletion.delete_job(c, journal._views, LAB, JOB, START_MS))
    before = await database.read(row_counts)
    await database.write(lambda c: deletion._delete_some_events(c, JOB))
    await database.write(lambda c: deletion._delete_some_reports(c, JOB))
    after = await database.read(row_counts)
    deleted = {table: before[table] - after.get(table, 0) for table in before}
    assert deleted["events"] == ROWS_PER_TRANSACTION
    assert 0 < sum(deleted.values()) <= 2 * ROWS_PER_TRANSACTION


async def test_a_late_report_of_a_deleted_job_is_refused_for_good(database: Database) -> None:
    journal = await ended_with_reports(database)
    reports = SqlReports(database)
    await journal.delete(LAB, JOB, at_ms=START_MS)
    await reports.delete(JOB)
    for attempt in (1, 3):
        with pytest.raises(NotFound):
            await report(reports, 1, attempt=attempt, logs=b"late")
        with pytest.raises(NotFound):
            await reports.record_heartbeat(JOB, attempt, at_ms=START_MS)
    assert await database.read(row_counts) == KEPT
