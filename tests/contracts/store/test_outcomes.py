"""Outcomes on every database: written once, found again by workload and organisation, made up for after a crash."""

from dataclasses import replace

import pytest
from sqlalchemy import Connection
from tests.contracts.store.downgrade import downgrade

from anygpu.control.accounting.outcomes import OutcomeRecorder, as_past_run
from anygpu.events.facts import FIRST_STEPS, Prediction
from anygpu.events.types import JobCompleted, JobPlanned
from anygpu.plan.predict.history import fingerprint
from anygpu.store.outcomes import JobOutcome, Outcomes
from anygpu.store.reports import MetricPoint, ReportBatch
from anygpu.store.sql.engine.database import Database
from anygpu.store.sql.engine.schema import SCHEMA_VERSION, current_version, upgrade
from anygpu.store.sql.engine.statements import execute
from anygpu.store.sql.journal import SqlJournal
from anygpu.store.sql.report_store.reports import SqlReports
from anygpu.testing.contracts.journal import append, submit
from anygpu.testing.samples.jobs import (
    LAB,
    START_MS,
    attempt_ended,
    attempt_training,
    interrupted_job,
    job_id,
    job_spec,
)

SAID = Prediction(
    wall_s=10.0,
    wall_low_s=8.0,
    wall_high_s=12.5,
    cost_microusd=5,
    cost_low_microusd=4,
    cost_high_microusd=6,
    basis="history",
)
OUTCOME = JobOutcome(
    job_id="j1",
    organisation="lab",
    project="vision",
    fingerprint="f",
    backend="local",
    gpu_kind="",
    gpu_count=0,
    attempts=1,
    length="epochs 3",
    steps=100,
    step_s=0.25,
    training_s=25.0,
    wall_s=30.5,
    cost_microusd=0,
    ended_at_ms=START_MS,
    predicted=SAID,
    calibrated=None,
)


@pytest.fixture
def outcomes(database: Database) -> Outcomes:
    return Outcomes(database)


async def test_an_outcome_comes_back_as_it_was_and_the_first_one_stays(outcomes: Outcomes) -> None:
    await outcomes.put(OUTCOME)
    await outcomes.put(replace(OUTCOME, wall_s=99.0))
    assert await outcomes.for_fingerprint("lab", "f") == [OUTCOME]
    assert await outcomes.for_organisation("lab") == [OUTCOME]


async def test_reads_are_bounded_newest_first_and_stay_in_the_organisation(outcomes: Outcomes) -> None:
    for number in range(6):
        await outcomes.put(replace(OUTCOME, job_id=f"j{number}", ended_at_ms=START_MS + number))
    await outcomes.put(replace(OUTCOME, job_id="other", organisation="other"))
    await outcomes.put(replace(OUTCOME, job_id="torn", attempts=2, predicted=None, ended_at_ms=START_MS + 99))
    newest = [each.job_id for each in await outcomes.for_fingerprint("lab", "f", limit=2)]
    assert newest == ["j5", "j4"]
    assert len(await outcomes.for_fingerprint("lab", "f", limit=10**9)) == 6
    assert len(await outcomes.for_organisation("lab")) == 6
    assert await outcomes.for_fingerprint("lab", "another") == []


async def completed(database: Database, number: int) -> None:
    journal, reports = SqlJournal(database), SqlReports(database)
    await submit(journal, number)
    planned = [
        JobPlanned(prediction=SAID),
        *attempt_training(),
        JobPlanned(prediction=replace(SAID, basis=FIRST_STEPS)),
    ]
    points = [MetricPoint("loss", step, 100.0 + 0.5 * step, 1.0) for step in range(1, 21)]
    await append(journal, job_id(number), *planned)
    batch = ReportBatch(first=1, last=1, points=[(1, points)], progress={"step": 20, "steps": 20})
    await reports.ingest(job_id(number), 1, batch, at_ms=START_MS)
    await append(journal, job_id(number), *attempt_ended(1), JobCompleted())


def recorder(database: Database, told: list[str] | None = None) -> OutcomeRecorder:
    report = (told if told is not None else []).append
    return OutcomeRecorder(
        SqlJournal(database),
        SqlReports(database),
        Outcomes(database),
        lambda what, error: report(f"{what}: {error}"),
    )


async def test_a_completed_job_has_one_outcome_however_often_it_is_recorded(
    database: Database, outcomes: Outcomes
) -> None:
    await completed(database, 1)
    assert await outcomes.jobs_without_outcome(limit=10) == [job_id(1)]
    assert await recorder(database).run() == 1
    assert await recorder(database).run() == 0
    (found,) = await outcomes.for_fingerprint("lab", fingerprint(job_spec()))
    assert (found.job_id, found.steps, found.step_s) == (job_id(1), 20, 0.5)
    assert found.predicted == SAID
    assert as_past_run(found).training_s == found.training_s
    assert found.calibrated == replace(SAID, basis=FIRST_STEPS)


async def test_outcomes_missing_after_a_crash_are_recorded_later(
    database: Database, outcomes: Outcomes
) -> None:
    for number in (1, 2, 3):
        await completed(database, number)
    await recorder(database).run()
    await database.write(lambda c: execute(c, "DELETE FROM outcomes WHERE job_id <> ?", (job_id(2),)))
    assert sorted(await outcomes.jobs_without_outcome(limit=10)) == [job_id(1), job_id(3)]
    assert await recorder(database).run() == 2
    assert await outcomes.jobs_without_outcome(limit=10) == []


async def test_only_completed_jobs_have_an_outcome(database: Database, outcomes: Outcomes) -> None:
    journal = SqlJournal(database)
    await submit(journal, 1)
    await append(journal, job_id(1), *attempt_training())
    assert await outcomes.jobs_without_outcome(limit=10) == []
    await submit(journal, 2)
    await append(journal, job_id(2), *interrupted_job())
    assert await recorder(database).run() == 1
    assert await outcomes.for_organisation("lab") == []  # nothing was predicted of it
    assert (
        await outcomes.for_fingerprint(LAB.organisation, fingerprint(job_spec())) == []
    )  # and it was interrupted


async def test_an_unreadable_job_does_not_prevent_the_outcomes_of_others(
    database: Database, outcomes: Outcomes
) -> None:
    told: list[str] = []
    await completed(database, 1)
    await completed(database, 2)
    sql = "UPDATE jobs SET view = 'torn', fold_version = 0 WHERE id = ?"
    await database.write(lambda c: execute(c, sql, (job_id(1),)))
    await database.write(
        lambda c: execute(c, "UPDATE events SET data = 'torn' WHERE job_id = ?", (job_id(1),))
    )
    assert await recorder(database, told).run() == 1
    assert len(told) == 1
    assert job_id(1) in told[0]
    assert await outcomes.jobs_without_outcome(limit=10) == [job_id(1)]


def migrate(connection: Connection) -> None:
    assert current_version(connection) == "0003"
    upgrade(connection)


async def test_an_older_database_is_migrated(database: Database, outcomes: Outcomes) -> None:
    await completed(database, 1)
    await database.write(lambda connection: downgrade(connection, "0003"))
    await database.write(migrate)
    assert await database.read(current_version) == SCHEMA_VERSION
    assert await recorder(database).run() == 1
