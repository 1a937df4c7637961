"""What the loop has in mind of jobs between its rounds."""

import asyncio
from typing import Any

from tests.unit.control.shelf import Shelf

from anygpu.control.agents.tickets import Tickets
from anygpu.control.policy import ControlPolicy
from anygpu.control.schedule.compare import OfferComparer, no_analysis
from anygpu.control.schedule.scheduler import Scheduler
from anygpu.control.supervisor import EXPLAIN_RETRY_S, LeaderTerm, Supervisor
from anygpu.control.sweep import Sweeper
from anygpu.events.offers import Offer
from anygpu.events.types import AttemptLaunching, JobPlanned, JobSubmitted
from anygpu.spec.load import from_mapping
from anygpu.store.blobs.checkpoints import Checkpoints
from anygpu.store.blobs.uploads import Plans
from anygpu.store.scope import SYSTEM, Scope
from anygpu.testing.memory.blobs import MemoryBlobs
from anygpu.testing.memory.journal import MemoryJournal
from anygpu.testing.simulation.virtual_time import SimWake, VirtualClock, VirtualLoop, run

LAB = Scope(organisation="lab", project="p")
OWN = Offer(backend="own", name="box", free=1)
POLICY = ControlPolicy(explain_after_s=2)


class Unwritable(Plans):
    """The store takes nothing now."""

    async def put(self, organisation: str, plan: dict[str, Any]) -> str:
        raise OSError("the store is away")


async def _placed(journal: MemoryJournal, job_id: str) -> None:
    await journal.submit(LAB, job_id, JobSubmitted(spec=from_mapping({"command": ["true"]})), at_ms=1)
    intent = AttemptLaunching(attempt=1, name=f"{job_id}-1", offer=OWN, ticket_sha256="")
    await journal.transact(SYSTEM, job_id, lambda _: [intent], at_ms=2)


def _never() -> Any:
    raise AssertionError


async def _leading(loop: VirtualLoop, journal: MemoryJournal) -> tuple[Supervisor, LeaderTerm, VirtualClock]:
    clock = VirtualClock(loop)
    blobs, backends = MemoryBlobs(clock.wall_ms), {"own": Shelf("own", OWN)}
    comparing = OfferComparer(no_analysis, Unwritable(blobs), clock)
    placing = Scheduler(journal, backends, Checkpoints(blobs), comparing, Tickets(b"s"), clock, POLICY)
    sweeper = Sweeper(backends, clock, POLICY, lambda what, error: None)
    leading = Supervisor(
        journal, _never, placing, sweeper, clock, SimWake(loop), POLICY, "me", lambda what, error: None
    )
    guard = await journal.acquire("control", "me", ttl_s=9999)
    assert guard is not None
    return leading, LeaderTerm(guard=guard, renewed_at=0), clock


def test_what_became_due_a_moment_ago_is_not_slept_over() -> None:
    async def story(loop: VirtualLoop) -> None:
        leading, led, clock = await _leading(loop, MemoryJournal(now_s=loop.time))
        led.reloaded_at = clock.monotonic()
        led.reconcile_timers.set("later", clock.monotonic() + 0.5)
        assert leading._sleep_s(led) == 0.5
        led.reconcile_timers.set("due by now", clock.monotonic() - 0.001)
        assert leading._sleep_s(led) < 0.5

    run(story)


def test_a_comparison_that_became_due_a_moment_ago_is_not_slept_over() -> None:
    async def story(loop: VirtualLoop) -> None:
        leading, led, clock = await _leading(loop, MemoryJournal(now_s=loop.time))
        led.reloaded_at = clock.monotonic()
        led.reconcile_timers.set("later", clock.monotonic() + 5)
        led.without_plan.set("due by now", clock.monotonic() - 0.001)
        assert leading._sleep_s(led) < 0.5
        led.tasks["comparing places"] = asyncio.create_task(asyncio.sleep(0))
        assert leading._sleep_s(led) == 5, "what is being done is not started again all the time"

    run(story)


def test_a_job_that_cannot_be_explained_keeps_no_other_waiting_and_fills_no_journal() -> None:
    async def story(loop: VirtualLoop) -> None:
        journal = MemoryJournal(now_s=loop.time)
        leading, led, clock = await _leading(loop, journal)
        await _placed(journal, "a")
        leading._update(led, await journal.view(SYSTEM, "a"))
        await asyncio.sleep(POLICY.explain_after_s)
        tried_at = clock.monotonic()
        assert led.without_plan.next_at() == tried_at
        await leading._explain(led)
        assert led.without_plan.next_at() == tried_at + EXPLAIN_RETRY_S

        await _placed(journal, "b")
        leading._update(led, await journal.view(SYSTEM, "b"))
        assert led.without_plan.next_at() == clock.monotonic() + POLICY.explain_after_s
        events = await journal.events(LAB, after=0, limit=99)
        assert not any(isinstance(recorded.event, JobPlanned) for recorded in events)

    run(story)


def test_places_are_given_out_at_once_when_a_job_has_changed_and_soon_otherwise() -> None:
    async def story(loop: VirtualLoop) -> None:
        journal = MemoryJournal(now_s=loop.time)
        leading, led, clock = await _leading(loop, journal)
        keeper: Any = None  # asked only for jobs that were tried before
        await journal.submit(LAB, "a", JobSubmitted(spec=from_mapping({"command": ["true"]})), at_ms=1)
        leading._update(led, await journal.view(SYSTEM, "a"))
        led.reloaded_at = clock.monotonic()
        led.reconcile_timers.drop("a")
        leading._schedule_or_soon(led, keeper)
        await led.tasks["placing"]
        assert (await journal.view(SYSTEM, "a")).live_attempt is not None

        await journal.submit(LAB, "b", JobSubmitted(spec=from_mapping({"command": ["true"]})), at_ms=2)
        leading._update(led, await journal.view(SYSTEM, "b"))
        led.reconcile_timers.drop("a")
        led.reconcile_timers.drop("b")
        leading._schedule_or_soon(led, keeper)  # a job has changed
        await led.tasks["placing"]
        led.reconcile_timers.drop("b")
        assert led.unscheduled == {"b"}, "the box has one slot"

        led.changed = False
        leading._schedule_or_soon(led, keeper)
        assert not led.tasks, "nobody was asked for places again"
        assert leading._sleep_s(led) <= POLICY.retry_interval_s, "but will be"
        await asyncio.sleep(POLICY.retry_interval_s)
        leading._schedule_or_soon(led, keeper)
        assert led.tasks

    run(story)
