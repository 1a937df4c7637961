"""Tests that every journal must pass."""

import asyncio
from collections.abc import Sequence

import pytest

from anygpu.errors import Conflict, LeaseLost, NotFound
from anygpu.events.fold import Recorded, fold
from anygpu.events.offers import Offer
from anygpu.events.slots import SlotKind, SlotUsage, TenantKey
from anygpu.events.transitions import InvalidEvent
from anygpu.events.types import (
    AttemptLaunching,
    CancelRequested,
    Event,
    JobCompleted,
    JobSubmitted,
    JobWaited,
)
from anygpu.events.view import JobView
from anygpu.store.journal import Decide, JobQuery, Journal
from anygpu.store.scope import SYSTEM, Scope
from anygpu.testing.samples.jobs import (
    LAB,
    LAB_OTHER_PROJECT,
    START_MS,
    STRANGER,
    attempt_ended,
    attempt_launching,
    attempt_training,
    interrupted_job,
    job_id,
    job_submitted,
)

ABSENT = job_id(999_999)
DAYS_3_MS = 3 * 24 * 3_600_000


def always(*events: Event) -> Decide:
    return lambda view: events


async def submit(journal: Journal, number: int, scope: Scope = LAB, **fields: object) -> JobView:
    event = job_submitted(**fields)
    written = await journal.submit(scope, job_id(number), event, at_ms=START_MS + number * 1000)
    return written.view


async def append(journal: Journal, job: str, *events: Event, at_ms: int = START_MS) -> JobView:
    written = await journal.transact(SYSTEM, job, always(*events), at_ms=at_ms)
    return written.view


def positions(recorded: Sequence[Recorded]) -> list[int]:
    return [one.position for one in recorded]


class JournalContract:
    """Tests of `Journal`. To test a journal, subclass this class and provide the fixture `journal`."""

    async def test_a_submitted_job_is_seen_at_once(self, journal: Journal) -> None:
        written = await journal.submit(LAB, job_id(1), job_submitted(name="first"), at_ms=START_MS)
        assert positions(written.recorded) == [1]
        assert written.view.name == "first"
        assert written.view.submitted_at_ms == START_MS
        assert await journal.view(LAB, job_id(1)) == written.view
        assert [view.id for view in await journal.live()] == [job_id(1)]

    async def test_a_whole_life_folds_to_the_view_that_was_kept(self, journal: Journal) -> None:
        await submit(
            journal, 1, name="life", tags=["a", "b"], config={"model": "m"}, script=None, trainer="t"
        )
        for offset, event in enumerate(interrupted_job()):
            await append(journal, job_id(1), event, at_ms=START_MS + offset)
        kept = await journal.view(LAB, job_id(1))
        history = await journal.events(LAB, after=0, limit=1000, job_id=job_id(1))
        assert fold(history) == kept
        assert kept.is_terminal
        assert [one.event for one in history[1:]] == interrupted_job()
        assert not await journal.live()

    async def test_several_events_of_one_decision_are_all_recorded(self, journal: Journal) -> None:
        await submit(journal, 1)
        written = await journal.transact(LAB, job_id(1), always(*attempt_training()), at_ms=START_MS + 7)
        assert positions(written.recorded) == [2, 3, 4, 5]
        assert written.view.position == 5
        assert written.view.updated_at_ms == START_MS + 7

    async def test_a_decision_for_nothing_appends_nothing(self, journal: Journal) -> None:
        before = await submit(journal, 1)
        written = await journal.transact(LAB, job_id(1), always(), at_ms=START_MS + 7)
        assert written.recorded == ()
        assert written.view == before
        assert await journal.head(LAB) == 1

    async def test_an_event_out_of_turn_undoes_the_whole_decision(self, journal: Journal) -> None:
        before = await submit(journal, 1)
        with pytest.raises(InvalidEvent):
            await append(journal, job_id(1), attempt_launching(1), attempt_launching(2))
        assert await journal.view(LAB, job_id(1)) == before
        assert await journal.head(LAB) == 1

    async def test_what_decide_raises_reaches_the_caller_and_writes_nothing(self, journal: Journal) -> None:
        def refuse(view: JobView) -> Sequence[Event]:
            raise Conflict("no")

        before = await submit(journal, 1)
        with pytest.raises(Conflict, match="no"):
            await journal.transact(LAB, job_id(1), refuse, at_ms=START_MS)
        assert await journal.view(LAB, job_id(1)) == before

    async def test_the_same_key_is_the_same_job(self, journal: Journal) -> None:
        first = await submit(journal, 1, idempotency_key="k")
        again = await journal.submit(LAB, job_id(2), job_submitted(idempotency_key="k"), at_ms=START_MS)
        assert again.view == first
        assert again.recorded == ()
        assert await journal.head(LAB) == 1
        with pytest.raises(NotFound):
            await journal.view(LAB, job_id(2))

    async def test_a_job_is_found_by_its_key_in_its_own_project(self, journal: Journal) -> None:
        assert await journal.job_with_key(LAB, "k") is None
        first = await submit(journal, 1, idempotency_key="k")
        assert await journal.job_with_key(LAB, "k") == first
        assert await journal.job_with_key(LAB, "other") is None
        assert await journal.job_with_key(LAB_OTHER_PROJECT, "k") is None

    async def test_the_same_key_in_another_project_is_another_job(self, journal: Journal) -> None:
        await submit(journal, 1, idempotency_key="k")
        for number, scope in ((2, LAB_OTHER_PROJECT), (3, STRANGER)):
            assert (await submit(journal, number, scope, idempotency_key="k")).id == job_id(number)

    async def test_the_same_key_at_the_same_time_is_one_job(self, journal: Journal) -> None:
        views = await asyncio.gather(*(submit(journal, n, idempotency_key="k") for n in range(20)))
        assert len({view.id for view in views}) == 1
        assert await journal.head(LAB) == 1

    async def test_an_id_that_is_taken_is_refused(self, journal: Journal) -> None:
        await submit(journal, 1)
        for scope in (LAB, STRANGER):
            with pytest.raises(Conflict):
                await submit(journal, 1, scope)
        assert await journal.head(STRANGER) == 0

    @pytest.mark.parametrize("scope", [STRANGER, LAB_OTHER_PROJECT], ids=["organisation", "project"])
    async def test_another_scope_finds_nothing(self, journal: Journal, scope: Scope) -> None:
        await submit(journal, 1, name="mine")
        with pytest.raises(NotFound):
            await journal.view(scope, job_id(1))
        with pytest.raises(NotFound):
            await journal.transact(scope, job_id(1), always(CancelRequested()), at_ms=START_MS)
        with pytest.raises(NotFound):
            await journal.events(scope, after=0, limit=10, job_id=job_id(1))
        assert not (await journal.find(scope, JobQuery(name="mine"))).jobs
        assert not await journal.events(scope, after=0, limit=10)
        assert await journal.head(scope) == 0

    async def test_a_job_nobody_submitted_is_not_found(self, journal: Journal) -> None:
        for scope in (LAB, SYSTEM):
            with pytest.raises(NotFound):
                await journal.view(scope, ABSENT)
            with pytest.raises(NotFound):
                await journal.transact(scope, ABSENT, always(CancelRequested()), at_ms=START_MS)
        with pytest.raises(NotFound):
            await journal.events(LAB, after=0, limit=1, job_id=ABSENT)

    async def test_each_project_counts_for_itself(self, journal: Journal) -> None:
        await submit(journal, 1)
        await submit(journal, 2)
        await submit(journal, 3, STRANGER)
        assert await journal.head(LAB) == 2
        assert positions(await journal.events(STRANGER, after=0, limit=10)) == [1]

    async def test_the_newest_events_before_a_position_come_in_order(self, journal: Journal) -> None:
        await submit(journal, 1)
        await submit(journal, 2)
        await append(journal, job_id(1), *attempt_training())
        assert positions(await journal.events_before(LAB, job_id(1), before=100, limit=2)) == [5, 6]
        assert positions(await journal.events_before(LAB, job_id(1), before=5, limit=9)) == [1, 3, 4]
        assert not await journal.events_before(LAB, job_id(1), before=1, limit=9)
        assert await journal.count_events(LAB, job_id(1)) == 5
        with pytest.raises(NotFound):
            await journal.events_before(STRANGER, job_id(1), before=100, limit=2)
        with pytest.raises(NotFound):
            await journal.count_events(STRANGER, job_id(1))

    async def test_events_come_in_order_after_the_cursor(self, journal: Journal) -> None:
        await submit(journal, 1)
        await submit(journal, 2)
        await append(journal, job_id(1), *attempt_training())
        assert positions(await journal.events(LAB, after=1, limit=3)) == [2, 3, 4]
        assert positions(await journal.events(LAB, after=2, limit=10, job_id=job_id(1))) == [3, 4, 5, 6]
        assert positions(await journal.events(LAB, after=4, limit=1, job_id=job_id(1))) == [5]
        assert not await journal.events(LAB, after=6, limit=10)
        (first,) = await journal.events(LAB, after=0, limit=1)
        assert (first.organisation, first.project, first.job_id) == ("lab", "vision", job_id(1))
        assert isinstance(first.event, JobSubmitted)
        assert first.event == job_submitted()

    async def test_live_lists_every_organisation_oldest_first(self, journal: Journal) -> None:
        for number, scope in ((3, LAB), (1, STRANGER), (2, LAB)):
            await submit(journal, number, scope)
        await append(journal, job_id(2), *interrupted_job())
        assert [view.id for view in await journal.live()] == [job_id(1), job_id(3)]

    async def test_concurrent_writers_leave_no_gap_and_a_follower_misses_nothing(
        self, journal: Journal
    ) -> None:
        jobs = [job_id(number) for number in range(8)]
        for number in range(8):
            await submit(journal, number)
        last = 8 + 8 * 10

        async def write(job: str) -> None:
            for turn in range(10):
                await append(journal, job, JobWaited(reason=f"turn {turn}"))

        async def follow() -> list[Recorded]:
            received: list[Recorded] = []
            while len(received) < last:
                received += await journal.events(LAB, after=len(received), limit=7)
                await asyncio.sleep(0)
            return received

        following = asyncio.create_task(follow())
        await asyncio.gather(*map(write, jobs))
        received = await asyncio.wait_for(following, timeout=30)
        assert positions(received) == list(range(1, last + 1))
        for job in jobs:
            turns = [
                one.event.reason for one in received if one.job_id == job and isinstance(one.event, JobWaited)
            ]
            assert turns == [f"turn {turn}" for turn in range(10)]

    async def test_concurrent_decisions_about_one_job_see_each_other(self, journal: Journal) -> None:
        await submit(journal, 1)

        def count(view: JobView) -> Sequence[Event]:
            return [JobWaited(reason=str(int(view.reason or 0) + 1))]

        await asyncio.gather(*(journal.transact(SYSTEM, job_id(1), count, at_ms=START_MS) for _ in range(25)))
        assert (await journal.view(LAB, job_id(1))).reason == "25"

    async def test_a_failing_decision_leaves_its_neighbours_alone(self, journal: Journal) -> None:
        await submit(journal, 1)
        await submit(journal, 2)
        results = await asyncio.gather(
            *(
                append(journal, job_id(number), attempt_launching(attempt))
                for number, attempt in ((1, 2), (2, 1), (1, 1), (2, 5))
            ),
            return_exceptions=True,
        )
        assert [isinstance(result, InvalidEvent) for result in results] == [True, False, False, True]
        assert await journal.head(LAB) == 4

    async def test_what_projects_use_of_their_own_machines_is_added_up_and_forgotten(
        self, journal: Journal
    ) -> None:
        assert not await journal.usages()
        own = Offer(backend="box", cpus=4, free=1)
        for number, scope in enumerate((LAB, LAB, LAB_OTHER_PROJECT), 1):
            await submit(journal, number, scope, resources={"cpus": 2})
            began_ms = START_MS + (number - 1) * DAYS_3_MS
            starts = AttemptLaunching(attempt=1, name=f"a-{number}", offer=own, ticket_sha256="")
            await append(journal, job_id(number), starts, at_ms=began_ms)
            await append(journal, job_id(number), *attempt_ended(), JobCompleted(), at_ms=began_ms + 60_000)
        assert await journal.usages() == {
            TenantKey("lab", "vision", SlotKind.CPU): SlotUsage(
                180.0, (START_MS + DAYS_3_MS + 60_000) / 1000
            ),
            TenantKey("lab", "speech", SlotKind.CPU): SlotUsage(
                120.0, (START_MS + 2 * DAYS_3_MS + 60_000) / 1000
            ),
        }

    async def test_rented_machines_and_transactions_undone_are_not_added_up(self, journal: Journal) -> None:
        await submit(journal, 1)
        await append(journal, job_id(1), *attempt_training(1, "cloud"))
        await append(journal, job_id(1), *attempt_ended(), at_ms=START_MS + 60_000)
        await submit(journal, 2)
        own = AttemptLaunching(
            attempt=1, name="a-2", offer=Offer(backend="box", cpus=4, free=1), ticket_sha256=""
        )
        await append(journal, job_id(2), own)
        with pytest.raises(InvalidEvent):
            await append(journal, job_id(2), *attempt_ended(), *attempt_ended(), at_ms=START_MS + 60_000)
        assert not await journal.usages()

    async def test_one_holder_leads_at_a_time(self, journal: Journal) -> None:
        first = await journal.acquire("control", "a", ttl_s=60)
        assert first is not None
        assert await journal.acquire("control", "b", ttl_s=60) is None
        assert await journal.acquire("control", "a", ttl_s=60) == first
        assert await journal.acquire("sweeper", "b", ttl_s=60) is not None

    async def test_a_guarded_write_is_refused_once_somebody_else_leads(self, journal: Journal) -> None:
        await submit(journal, 1)
        old = await journal.acquire("control", "a", ttl_s=60)
        assert old is not None
        await journal.transact(SYSTEM, job_id(1), always(JobWaited(reason="a")), at_ms=START_MS, guard=old)
        await journal.acquire("control", "a", ttl_s=-1)
        new = await journal.acquire("control", "b", ttl_s=60)
        assert new is not None
        assert new.epoch > old.epoch
        with pytest.raises(LeaseLost):
            await journal.transact(
                SYSTEM, job_id(1), always(JobWaited(reason="x")), at_ms=START_MS, guard=old
            )
        await journal.transact(SYSTEM, job_id(1), always(JobWaited(reason="b")), at_ms=START_MS, guard=new)
        assert (await journal.view(LAB, job_id(1))).reason == "b"
        assert await journal.head(LAB) == 3
