"""Deleting the reports of old jobs."""

from anygpu.store.reports import ReportBatch
from anygpu.store.sql.engine.database import Database
from anygpu.store.sql.journal import SqlJournal
from anygpu.store.sql.report_store.reports import SqlReports
from anygpu.store.sql.retention import RetentionResult, prune
from anygpu.testing.contracts.journal import append, submit
from anygpu.testing.contracts.reports import JOB, points, report, whole_log
from anygpu.testing.samples.jobs import LAB, START_MS, interrupted_job, job_id


async def ended_with_reports(database: Database, number: int, ended_at_ms: int) -> None:
    journal, evidence = SqlJournal(database), SqlReports(database)
    await submit(journal, number)
    batch = ReportBatch(
        first=1, last=3, logs=[(1, b"log")], points=[(2, points(1.0, 2.0))], telemetry=[(3, {"cpu": 1})]
    )
    await evidence.ingest(job_id(number), 1, batch, at_ms=START_MS)
    await append(journal, job_id(number), *interrupted_job(), at_ms=ended_at_ms)


async def test_retention_deletes_reports_of_old_jobs_only(database: Database) -> None:
    await ended_with_reports(database, 1, START_MS)
    await ended_with_reports(database, 2, START_MS + 1000)
    would = await prune(database, ended_before_ms=START_MS + 500, dry_run=True)
    assert would == RetentionResult(jobs=1, attempts=1, log_bytes=3, metric_points=2)
    assert await whole_log(SqlReports(database)) == b"log"
    assert await prune(database, ended_before_ms=START_MS + 500) == would
    assert await prune(database, ended_before_ms=START_MS + 500) == RetentionResult()
    evidence, journal = SqlReports(database), SqlJournal(database)
    assert (await evidence.log(job_id(1), 1, offset=0, limit=9)).start == 3
    assert await evidence.points(job_id(1), 1, after=0, limit=9) == ([], 2)
    assert await evidence.telemetry(job_id(2), 1, max_count=9) == [{"cpu": 1}]
    assert [series.last for series in await evidence.series(job_id(1), 1)] == [2.0]
    assert (await journal.view(LAB, job_id(1))).is_terminal
    assert (await evidence.log(job_id(2), 1, offset=0, limit=9)).data == b"log"


async def test_a_report_after_retention_is_kept(database: Database) -> None:
    await ended_with_reports(database, 1, START_MS)
    await prune(database, ended_before_ms=START_MS + 1)
    evidence = SqlReports(database)
    await report(evidence, 4, logs=b"late", points=points(3.0))
    part = await evidence.log(JOB, 1, offset=0, limit=99)
    assert (part.start, part.data, part.end) == (3, b"late", 7)
    assert await evidence.points(JOB, 1, after=0, limit=9) == (points(3.0), 3)
    assert (await evidence.samples(JOB, 1, ["loss"], max_count=9)).points == {"loss": points(3.0)}
    assert (await prune(database, ended_before_ms=START_MS + 1)).log_bytes == 4
