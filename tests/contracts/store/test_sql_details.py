"""What the SQL stores do beyond their seams, on every database."""

import asyncio
from collections.abc import Sequence

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, inspect

from anygpu.errors import NotFound
from anygpu.events.fold import Recorded, fold
from anygpu.events.view import FOLD_VERSION
from anygpu.store.journal import JobQuery
from anygpu.store.reports import MetricPoint, ReportBatch
from anygpu.store.sql.database import Database
from anygpu.store.sql.journal import SqlJournal
from anygpu.store.sql.reports import SqlReports
from anygpu.store.sql.retention import RetentionResult, prune
from anygpu.store.sql.schema import SCHEMA_VERSION, current_version, upgrade
from anygpu.store.sql.statements import execute, fetch_all, fetch_one, now_ms
from anygpu.store.sql.tables import METADATA
from anygpu.store.sql.tokens import Tokens
from anygpu.testing.contracts.journal import append, submit
from anygpu.testing.contracts.reports import JOB, every_point, points, report, whole_log
from anygpu.testing.samples.jobs import LAB, START_MS, STRANGER, attempt_training, interrupted_job, job_id


def differences(connection: Connection) -> Sequence[object]:
    found: Sequence[object] = compare_metadata(MigrationContext.configure(connection), METADATA)
    return found


async def test_an_empty_database_gets_the_tables_the_code_speaks_of(database: Database) -> None:
    assert await database.read(differences) == []
    assert await database.read(current_version) == SCHEMA_VERSION


async def test_migrations_make_the_same_tables(database: Database) -> None:
    def migrate_from_nothing(connection: Connection) -> None:
        METADATA.drop_all(connection)
        execute(connection, "DROP TABLE alembic_version")
        upgrade(connection)

    created = await database.read(columns)
    await database.write(migrate_from_nothing)
    assert await database.read(differences) == []
    assert await database.read(current_version) == SCHEMA_VERSION
    assert await database.read(columns) == created


def columns(connection: Connection) -> dict[str, list[tuple[str, str, bool]]]:
    tables = inspect(connection)
    return {
        table: sorted((c["name"], str(c["type"]), c["nullable"]) for c in tables.get_columns(table))
        for table in sorted(tables.get_table_names())
    }


async def test_a_view_folded_by_other_rules_is_folded_anew(database: Database) -> None:
    await submit(SqlJournal(database), 1)
    expected = await append(SqlJournal(database), job_id(1), *attempt_training())
    spoil = (
        f"UPDATE jobs SET fold_version = {FOLD_VERSION - 1}, view = '{{}}', status = 'lost', phase = 'lost'"
    )
    await database.write(lambda connection: execute(connection, spoil))
    await database.write(
        lambda c: execute(c, "UPDATE job_terms SET term = 'status:queued' WHERE term = 'status:running'")
    )
    journal = SqlJournal(database)
    assert await journal.view(LAB, job_id(1)) == expected
    assert list(await journal.live()) == [expected]
    assert (await journal.find(LAB, JobQuery())).jobs == (expected,)
    assert await journal.refold_stale() == 1
    assert await journal.refold_stale() == 0
    assert (await journal.find(LAB, JobQuery(status=("running",)))).jobs == (expected,)
    assert not (await journal.find(LAB, JobQuery(status=("queued",)))).jobs
    assert (await append(journal, job_id(1), *interrupted_job()[4:])).is_terminal


async def test_cached_views_equal_the_folded_events_of_every_job(database: Database) -> None:
    journal = SqlJournal(database)
    for number, upto in enumerate((0, 1, 4, 6, 8, len(interrupted_job()))):
        await submit(journal, number)
        await append(journal, job_id(number), *interrupted_job()[:upto])
    events = await journal.events(LAB, after=0, limit=1000)
    fresh = SqlJournal(database)  # without what the first has in memory
    for number in range(6):
        folded = fold(one for one in events if one.job_id == job_id(number))
        assert await fresh.view(LAB, job_id(number)) == folded


async def test_commits_are_told_in_the_writers_loop(database: Database) -> None:
    told: list[Recorded] = []
    loop = asyncio.get_running_loop()

    def tell(recorded: Sequence[Recorded]) -> None:
        assert asyncio.get_running_loop() is loop
        told.extend(recorded)

    journal = SqlJournal(database, on_commit=tell)
    await submit(journal, 1, idempotency_key="k")
    await submit(journal, 2, idempotency_key="k")
    await append(journal, job_id(1), *attempt_training())
    assert [one.position for one in told] == [1, 2, 3, 4, 5]
    with pytest.raises(NotFound):
        await append(journal, job_id(77), *attempt_training())
    assert len(told) == 5


async def test_two_journals_on_one_database_see_each_other(database: Database) -> None:
    first, second = SqlJournal(database), SqlJournal(database)
    await submit(first, 1)
    await append(second, job_id(1), *attempt_training())
    assert (await first.view(LAB, job_id(1))).position == 5
    assert (await append(first, job_id(1), *interrupted_job()[4:])).is_terminal
    assert (await second.view(LAB, job_id(1))).is_terminal


async def test_the_database_has_a_clock(database: Database) -> None:
    first = await database.read(now_ms)
    assert 1_600_000_000_000 < first <= await database.read(now_ms) < first + 60_000


async def test_ids_no_database_can_hold_are_just_not_found(database: Database) -> None:
    journal = SqlJournal(database)
    await submit(journal, 1)
    for strange in ("a\0b", "\ud800", "", "'; DROP TABLE jobs"):
        with pytest.raises(NotFound):
            await journal.view(LAB, strange)
        assert not (await journal.find(LAB, JobQuery(name=strange, text=strange, tag=strange))).jobs


async def test_points_are_sorted_into_chunks_as_they_grow(database: Database) -> None:
    evidence = SqlReports(database)
    sent = [MetricPoint(f"m{n % 3}", n, n / 8, float(n % 1000)) for n in range(40_000)]
    for seq, start in enumerate(range(0, 40_000, 500), 1):
        await report(evidence, seq, points=sent[start : start + 500])
    chunks = await database.read(lambda c: fetch_all(c, "SELECT count FROM metric_chunks"))
    assert 6 <= len(chunks) <= 24
    assert await every_point(evidence, page=7000) == sent
    assert await every_point(evidence, page=7000, name="m1") == sent[1::3]
    found = await evidence.sample(JOB, 1, "m2", max_count=60)
    assert {0.0, 999.0} <= {point.value for point in found}


async def test_single_points_do_not_stay_a_row_each(database: Database) -> None:
    evidence = SqlReports(database)
    for seq in range(1, 601):
        await report(evidence, seq, points=points(float(seq), first_step=seq))
    found = await database.read(lambda c: fetch_one(c, "SELECT count(*) FROM metric_batches"))
    assert found is not None
    assert found[0] <= 100
    assert [point.step for point in await every_point(evidence)] == list(range(1, 601))


async def test_telemetry_is_thinned_as_it_grows(database: Database) -> None:
    evidence = SqlReports(database)
    for first in range(1, 5001, 500):
        frames = [(seq, {"n": seq}) for seq in range(first, first + 500)]
        batch = ReportBatch(first=first, last=first + 499, telemetry=frames)
        await evidence.ingest(JOB, 1, batch, at_ms=START_MS)
    history = [sample["n"] for sample in await evidence.telemetry(JOB, 1, max_count=10_000)]
    assert 1000 <= len(history) <= 2001
    assert history == sorted(history)
    assert history[-1] == 5000


async def ended_with_evidence(database: Database, number: int, ended_at_ms: int) -> None:
    journal, evidence = SqlJournal(database), SqlReports(database)
    await submit(journal, number)
    batch = ReportBatch(
        first=1, last=3, logs=[(1, b"log")], points=[(2, points(1.0, 2.0))], telemetry=[(3, {"cpu": 1})]
    )
    await evidence.ingest(job_id(number), 1, batch, at_ms=START_MS)
    await append(journal, job_id(number), *interrupted_job(), at_ms=ended_at_ms)


async def test_retention_takes_the_evidence_of_old_jobs_and_leaves_the_rest(database: Database) -> None:
    await ended_with_evidence(database, 1, START_MS)
    await ended_with_evidence(database, 2, START_MS + 1000)
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
    await ended_with_evidence(database, 1, START_MS)
    await prune(database, ended_before_ms=START_MS + 1)
    evidence = SqlReports(database)
    await report(evidence, 4, logs=b"late", points=points(3.0))
    part = await evidence.log(JOB, 1, offset=0, limit=99)
    assert (part.start, part.data, part.end) == (3, b"late", 7)
    assert await evidence.points(JOB, 1, after=0, limit=9) == (points(3.0), 3)
    assert await evidence.sample(JOB, 1, "loss", max_count=9) == points(3.0)
    assert (await prune(database, ended_before_ms=START_MS + 1)).log_bytes == 4


async def test_a_token_speaks_for_its_scope_until_revoked(database: Database) -> None:
    tokens = Tokens(database)
    text, made = await tokens.make(LAB, role="member", label="laptop", at_ms=5)
    found = await tokens.look_up(text, at_ms=6)
    assert found == made
    assert (made.scope, made.role, made.label) == (LAB, "member", "laptop")
    assert [token.used_at_ms for token in await tokens.list(LAB)] == [6]
    with pytest.raises(NotFound):
        await tokens.revoke(STRANGER, made.id)
    assert not await tokens.list(STRANGER)
    await tokens.revoke(LAB, made.id)
    assert await tokens.look_up(text, at_ms=7) is None


async def test_tokens_expire_and_are_never_stored_themselves(database: Database) -> None:
    tokens = Tokens(database)
    text, _ = await tokens.make(LAB, role="admin", at_ms=0, expires_at_ms=100)
    assert await tokens.look_up(text, at_ms=99) is not None
    assert await tokens.look_up(text, at_ms=100) is None
    assert await tokens.look_up(text + "x", at_ms=1) is None
    assert [await tokens.delete_expired(at_ms=at_ms) for at_ms in (99, 100, 100)] == [0, 1, 0]
    text, _ = await tokens.make(LAB, role="admin", at_ms=0)
    stored = await database.read(lambda connection: fetch_all(connection, "SELECT * FROM tokens"))
    assert text not in repr(stored)


async def test_a_given_token_is_taken_over_once(database: Database) -> None:
    tokens = Tokens(database)
    for _ in range(2):
        assert (await tokens.make(LAB, role="admin", at_ms=1, token="given"))[0] == "given"
    assert len(await tokens.list(LAB)) == 1
