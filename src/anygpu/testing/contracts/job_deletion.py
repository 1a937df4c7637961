"""Tests of `Journal.delete` that every journal must pass."""

import pytest

from anygpu.errors import Conflict, NotFound
from anygpu.events.facts import Usage
from anygpu.events.types import AttemptEnded, AttemptReleased, Event, JobCompleted, JobDeleted
from anygpu.store.journal import JobQuery, Journal
from anygpu.store.scope import SYSTEM
from anygpu.testing.contracts.journal import append, positions, submit
from anygpu.testing.samples.jobs import (
    LAB,
    START_MS,
    STRANGER,
    attempt_training,
    interrupted_job,
    job_id,
    job_submitted,
)

DELETED = job_id(1)


def paid_job() -> list[Event]:
    usage = Usage(started_at_ms=START_MS, ended_at_ms=START_MS + 9, cost_microusd=1234)
    ended = AttemptEnded(attempt=1, outcome="exited", exit_code=0)
    return [*attempt_training(1, "cloud"), ended, AttemptReleased(attempt=1, usage=usage), JobCompleted()]


class JobDeletionContract:
    """Tests of `Journal.delete`. To test a journal, subclass this class and provide the fixture `journal`."""

    async def test_a_deleted_job_is_not_found_any_more(self, journal: Journal) -> None:
        await submit(journal, 1, name="gone", tags=["t"])
        await submit(journal, 2, name="stays", tags=["t"])
        await append(journal, DELETED, *interrupted_job())
        await journal.view(LAB, DELETED)  # a cached view must not survive
        await journal.delete(LAB, DELETED, at_ms=START_MS + 99)
        for scope in (LAB, SYSTEM):
            with pytest.raises(NotFound):
                await journal.view(scope, DELETED)
            with pytest.raises(NotFound):
                await journal.transact(scope, DELETED, lambda view: [], at_ms=START_MS)
        with pytest.raises(NotFound):
            await journal.events(LAB, after=0, limit=10, job_id=DELETED)
        with pytest.raises(NotFound):
            await journal.delete(LAB, DELETED, at_ms=START_MS)
        queries = (JobQuery(), JobQuery(tag="t"), JobQuery(text="gone"), JobQuery(status=("completed",)))
        found = [view.id for query in queries for view in (await journal.find(LAB, query)).jobs]
        assert found == [job_id(2), job_id(2)]
        assert [view.id for view in await journal.live()] == [job_id(2)]

    async def test_the_log_of_the_project_keeps_the_deletion_and_its_cost(self, journal: Journal) -> None:
        await submit(journal, 1, name="paid")
        await append(journal, DELETED, *paid_job())
        await submit(journal, 2)
        before = await journal.head(LAB)
        await journal.delete(LAB, DELETED, at_ms=START_MS + 99)
        remaining = await journal.events(LAB, after=0, limit=99)
        assert positions(remaining) == [before, before + 1]
        assert await journal.head(LAB) == before + 1
        assert remaining[-1].event == JobDeleted(
            name="paid", status="completed", cost_microusd=1234, person="ada"
        )
        assert (remaining[-1].job_id, remaining[-1].at_ms) == (DELETED, START_MS + 99)
        assert positions(await journal.events(LAB, after=3, limit=1)) == [before]
        after = await append(journal, job_id(2), *attempt_training())
        assert after.position == before + 1 + len(attempt_training())

    async def test_slot_time_of_a_deleted_job_stays_used(self, journal: Journal) -> None:
        await submit(journal, 1)
        await append(journal, DELETED, *attempt_training())
        await append(journal, DELETED, *interrupted_job()[4:], at_ms=START_MS + 60_000)
        used = await journal.usages()
        await journal.delete(LAB, DELETED, at_ms=START_MS + 99)
        assert await journal.usages() == used

    @pytest.mark.parametrize("events", [[], attempt_training()], ids=["queued", "running"])
    async def test_a_job_that_has_not_ended_is_not_deleted(
        self, journal: Journal, events: list[Event]
    ) -> None:
        await submit(journal, 1)
        before = await append(journal, DELETED, *events)
        with pytest.raises(Conflict):
            await journal.delete(LAB, DELETED, at_ms=START_MS)
        assert await journal.view(LAB, DELETED) == before
        assert await journal.head(LAB) == 1 + len(events)

    async def test_another_project_cannot_delete_a_job(self, journal: Journal) -> None:
        await submit(journal, 1)
        await append(journal, DELETED, *interrupted_job())
        with pytest.raises(NotFound):
            await journal.delete(STRANGER, DELETED, at_ms=START_MS)
        assert (await journal.view(LAB, DELETED)).is_terminal

    async def test_id_and_idempotency_key_of_a_deleted_job_are_not_used_again(self, journal: Journal) -> None:
        await submit(journal, 1, idempotency_key="once")
        await append(journal, DELETED, *interrupted_job())
        await journal.delete(LAB, DELETED, at_ms=START_MS)
        head = await journal.head(LAB)
        with pytest.raises(Conflict):
            await journal.submit(LAB, job_id(2), job_submitted(idempotency_key="once"), at_ms=START_MS)
        with pytest.raises(Conflict):
            await journal.submit(LAB, DELETED, job_submitted(), at_ms=START_MS)
        assert await journal.head(LAB) == head
        await journal.submit(STRANGER, job_id(3), job_submitted(idempotency_key="once"), at_ms=START_MS)
