"""Damaged rows: a view is folded again, and a job whose events cannot be read stops no other."""

from collections.abc import Callable

import pytest
from sqlalchemy import Connection

from anygpu.errors import JobDamaged
from anygpu.events.facts import Status
from anygpu.events.types import CancelRequested, DamagedEvent, JobWaited
from anygpu.store.journal import JobQuery
from anygpu.store.scope import SYSTEM
from anygpu.store.sql.engine.database import Database
from anygpu.store.sql.engine.statements import execute, fetch_one, is_postgres
from anygpu.store.sql.journal import SqlJournal
from anygpu.testing.contracts.journal import always, append, positions, submit
from anygpu.testing.samples.jobs import (
    LAB,
    START_MS,
    attempt_training,
    interrupted_job,
    job_id,
    job_submitted,
)

BAD, GOOD, ENDED = job_id(1), job_id(2), job_id(3)
Damage = Callable[[Connection], None]


def update_view(value: str) -> Damage:
    return lambda c: _update(c, "UPDATE jobs SET view = ? WHERE id IN (?, ?)", (value, BAD, ENDED))


def change_view(old: str, new: str) -> Damage:
    sql = "UPDATE jobs SET view = replace(view, ?, ?) WHERE id IN (?, ?)"
    return lambda c: _update(c, sql, (old, new, BAD, ENDED))


def null_view(connection: Connection) -> None:
    """Set the views to NULL. The column is not nullable, so it is made again."""
    execute(connection, "ALTER TABLE jobs DROP COLUMN view")
    execute(connection, "ALTER TABLE jobs ADD COLUMN view TEXT")


def restore_column(connection: Connection) -> None:
    execute(connection, "UPDATE jobs SET view = '' WHERE view IS NULL")
    if is_postgres(connection):  # its tables outlive the test
        execute(connection, "ALTER TABLE jobs ALTER COLUMN view SET NOT NULL")


def invalid_text(connection: Connection) -> None:
    if is_postgres(connection):  # it stores valid text only
        update_view("{\ufffd")(connection)
        return
    sql = "UPDATE jobs SET view = CAST(? AS TEXT) WHERE id IN (?, ?)"
    _update(connection, sql, (b'{"id": "\xff\xfe', BAD, ENDED))


def other_fold_version(connection: Connection) -> None:
    _update(connection, "UPDATE jobs SET fold_version = 999 WHERE id IN (?, ?)", (BAD, ENDED))


def _update(connection: Connection, sql: str, values: tuple[object, ...]) -> None:
    assert execute(connection, sql, values) == 2


DAMAGED_VIEWS = {
    "NULL": null_view,
    "null": update_view("null"),
    "empty": update_view(""),
    "truncated": update_view('{"id": "'),
    "not an object": update_view("[1, 2]"),
    "wrong type": change_view('"submitted_at_ms":', '"submitted_at_ms":"soon","x":'),
    "unknown status": change_view('"status":"', '"status":"un'),
    "view of another job": change_view('"id":"', '"id":"x'),
    "other position": change_view('"position":', '"position":9'),
    "not UTF-8": invalid_text,
    "other fold version": other_fold_version,
}


async def three_jobs(database: Database) -> SqlJournal:
    """A running job and an ended one, which will be damaged, and another."""
    journal = SqlJournal(database)
    for number in (1, 2, 3):
        await submit(journal, number, name=f"job-{number}", idempotency_key=f"key-{number}")
    await append(journal, BAD, *attempt_training())
    await append(journal, ENDED, *interrupted_job())
    return journal


@pytest.fixture
async def journal(database: Database) -> SqlJournal:
    return await three_jobs(database)


@pytest.mark.parametrize("damage", DAMAGED_VIEWS.values(), ids=DAMAGED_VIEWS.keys())
async def test_a_damaged_view_is_folded_again(
    database: Database, journal: SqlJournal, damage: Damage
) -> None:
    before = {view.id: view for view in (await journal.find(LAB, JobQuery())).jobs}
    assert before[BAD].status is Status.RUNNING
    await database.write(damage)
    fresh = SqlJournal(database)  # without the cache of the first
    assert {view.id: view for view in (await fresh.find(LAB, JobQuery())).jobs} == before
    assert list(await fresh.live()) == [before[BAD], before[GOOD]]
    assert await SqlJournal(database).view(LAB, BAD) == before[BAD]
    assert (await fresh.find(LAB, JobQuery(name="job-1", status=("running",)))).jobs == (before[BAD],)
    again = await fresh.submit(LAB, job_id(9), job_submitted(idempotency_key="key-1"), at_ms=START_MS)
    assert again.view == before[BAD]
    assert positions(await fresh.events(LAB, after=0, limit=99, job_id=BAD)) == [1, 4, 5, 6, 7]
    written = await SqlJournal(database).transact(LAB, BAD, always(CancelRequested()), at_ms=START_MS)
    assert await database.read(lambda c: _stored_view(c, BAD))  # the write has repaired the row
    assert (await SqlJournal(database).view(LAB, BAD)) == written.view
    await database.write(restore_column)


def _stored_view(connection: Connection, job: str) -> bool:
    row = fetch_one(connection, "SELECT view FROM jobs WHERE id = ? AND fold_version < 999", (job,))
    return row is not None and f'"id":"{job}"' in str(row[0])


async def test_refolding_repairs_live_jobs_without_a_write_to_them(
    database: Database, journal: SqlJournal
) -> None:
    await database.write(update_view("{"))
    fresh = SqlJournal(database)
    assert await fresh.refold_stale() == 1
    assert await fresh.refold_stale() == 0
    assert await database.read(lambda c: _stored_view(c, BAD))


def damage_event(kind: str, column: str = "data", value: object = "{") -> Damage:
    def damage(connection: Connection) -> None:
        sql = f"UPDATE events SET {column} = ? WHERE job_id = ? AND kind = ?"
        assert execute(connection, sql, (value, BAD, kind)) == 1
        execute(connection, "UPDATE jobs SET view = '{' WHERE id = ?", (BAD,))

    return damage


def without_events(connection: Connection) -> None:
    execute(connection, "DELETE FROM events WHERE job_id = ?", (BAD,))
    execute(connection, "UPDATE jobs SET view = '{' WHERE id = ?", (BAD,))


DAMAGED_EVENTS = {
    "truncated": (damage_event("AttemptClaimed"), "event 6 (AttemptClaimed) cannot be read"),
    "wrong type": (
        damage_event("AttemptLaunched", value='{"attempt":"x","handle":{"name":"n"}}'),
        "event 5 (AttemptLaunched) cannot be read: attempt",
    ),
    "unknown kind": (damage_event("AttemptClaimed", "kind", "Invented"), "unknown type 'Invented'"),
    "unknown version": (damage_event("AttemptClaimed", "version", 77), "cannot be read"),
    "first event": (damage_event("JobSubmitted"), "event 1 (JobSubmitted) cannot be read"),
    "out of order": (
        damage_event("AttemptLaunched", "kind", "JobCompleted"),
        "event 5",
    ),
    "no events": (without_events, "no events"),
}


@pytest.mark.parametrize(("damage", "said"), DAMAGED_EVENTS.values(), ids=DAMAGED_EVENTS.keys())
async def test_a_damaged_event_damages_its_own_job_only(
    database: Database, journal: SqlJournal, damage: Damage, said: str
) -> None:
    await database.write(damage)
    fresh = SqlJournal(database)
    views = [
        await fresh.view(LAB, BAD),
        await fresh.view(SYSTEM, BAD),
        next(view for view in await fresh.live() if view.id == BAD),
        next(view for view in (await fresh.find(LAB, JobQuery())).jobs if view.id == BAD),
        *(await fresh.find(LAB, JobQuery(name="job-1"))).jobs,
    ]
    for view in views:
        assert said in view.damaged
        assert (view.id, view.organisation, view.project) == (BAD, "lab", "vision")
        assert (view.status, view.submitted_at_ms) == (Status.RUNNING, START_MS + 1000)
    with pytest.raises(JobDamaged, match="Restore the database"):
        await fresh.transact(LAB, BAD, always(CancelRequested()), at_ms=START_MS)
    assert (await fresh.submit(LAB, job_id(9), job_submitted(), at_ms=START_MS)).recorded
    assert (await append(fresh, GOOD, JobWaited(reason="works"))).reason == "works"
    assert not any(view.damaged for view in await fresh.live() if view.id != BAD)
    assert await fresh.refold_stale() == 0


async def test_a_reader_of_events_gets_past_a_damaged_one(database: Database, journal: SqlJournal) -> None:
    await database.write(damage_event("AttemptClaimed"))
    for job in (None, BAD):
        events = await SqlJournal(database).events(LAB, after=0, limit=99, job_id=job)
        (damaged,) = ((each, each.event) for each in events if isinstance(each.event, DamagedEvent))
        assert (damaged[0].position, damaged[0].job_id, damaged[1].kind) == (6, BAD, "AttemptClaimed")
        assert positions(events) == ([*range(1, 25)] if job is None else [1, 4, 5, 6, 7])


async def test_an_event_that_is_restored_repairs_the_job(database: Database, journal: SqlJournal) -> None:
    sql = "SELECT data FROM events WHERE job_id = ? AND kind = 'AttemptClaimed'"
    row = await database.read(lambda c: fetch_one(c, sql, (BAD,)))
    assert row is not None
    before = await journal.view(LAB, BAD)
    await database.write(damage_event("AttemptClaimed"))
    fresh = SqlJournal(database, alone=True)
    assert (await fresh.view(LAB, BAD)).damaged
    await database.write(damage_event("AttemptClaimed", value=row[0]))
    assert await fresh.view(LAB, BAD) == before


async def test_a_damaged_job_can_be_deleted_although_it_has_not_ended(
    database: Database, journal: SqlJournal
) -> None:
    await database.write(damage_event("JobSubmitted"))
    fresh = SqlJournal(database)
    await fresh.delete(LAB, BAD, at_ms=START_MS)
    assert [view.id for view in (await fresh.find(LAB, JobQuery())).jobs] == [ENDED, GOOD]
    assert [view.id for view in await fresh.live()] == [GOOD]
    assert not (await fresh.find(LAB, JobQuery(name="job-1"))).jobs
