"""Behaviour that every database has: commits, shared access, its clock, ids it cannot store."""

import asyncio
from collections.abc import Sequence

import pytest

from anygpu.errors import NotFound
from anygpu.events.fold import Recorded
from anygpu.store.journal import JobQuery
from anygpu.store.sql.engine.database import Database
from anygpu.store.sql.engine.statements import now_ms
from anygpu.store.sql.journal import SqlJournal
from anygpu.testing.contracts.journal import append, submit
from anygpu.testing.samples.jobs import LAB, attempt_training, interrupted_job, job_id


async def test_commit_listeners_run_in_the_writers_event_loop(database: Database) -> None:
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


async def test_ids_that_no_database_can_store_are_not_found(database: Database) -> None:
    journal = SqlJournal(database)
    await submit(journal, 1)
    for strange in ("a\0b", "\ud800", "", "'; DROP TABLE jobs"):
        with pytest.raises(NotFound):
            await journal.view(LAB, strange)
        assert not (await journal.find(LAB, JobQuery(name=strange, text=strange, tag=strange))).jobs
