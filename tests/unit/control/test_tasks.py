"""The periodic tasks: when each is due."""

import asyncio
from typing import Any

from tests.unit.control.shelf import Shelf

from anygpu.control.agents.tickets import Tickets
from anygpu.control.policy import ControlPolicy
from anygpu.control.schedule.candidates import CandidateSource
from anygpu.control.schedule.compare import OfferComparer, PlanExplainer, no_analysis
from anygpu.control.schedule.deadline import DeadlineTracker
from anygpu.control.schedule.scheduler import Scheduler
from anygpu.control.tasks import EXPLAIN_RETRY_S, ExplainTask, ScheduleTask
from anygpu.control.term import LeaderTerm, PeriodicTask
from anygpu.events.offers import Offer
from anygpu.events.types import AttemptLaunching, JobPlanned, JobSubmitted
from anygpu.spec.load import from_mapping
from anygpu.store.blobs.checkpoints import Checkpoints
from anygpu.store.blobs.uploads import Plans
from anygpu.store.scope import SYSTEM, Scope
from anygpu.testing.memory.blobs import MemoryBlobs
from anygpu.testing.memory.journal import MemoryJournal
from anygpu.testing.simulation.virtual_time import VirtualClock, VirtualLoop, run

LAB = Scope(organisation="lab", project="p")
OWN = Offer(backend="own", name="box", free=1)
POLICY = ControlPolicy(explain_after_s=2)


class Unwritable(Plans):
    """A store that accepts nothing."""

    async def put(self, organisation: str, plan: dict[str, Any]) -> str:
        raise OSError("the store is away")


class Office:
    """A term with one machine of one slot, and the tasks that schedule and explain."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.clock, self.journal = VirtualClock(loop), MemoryJournal(now_s=loop.time)

    async def open(self) -> tuple[LeaderTerm, ScheduleTask, ExplainTask]:
        blobs, clock = MemoryBlobs(self.clock.wall_ms), self.clock
        comparer = OfferComparer(no_analysis, Unwritable(blobs), clock)
        source = CandidateSource({"own": Shelf("own", OWN)}, comparer, clock, POLICY)
        scheduler = Scheduler(
            self.journal,
            source,
            DeadlineTracker(clock, POLICY),
            Checkpoints(blobs),
            comparer,
            Tickets(b"s"),
            clock,
            POLICY,
        )
        guard = await self.journal.acquire("control", "me", ttl_s=9999)
        assert guard is not None
        reconciler: Any = None  # needed only for jobs that were tried before
        term = LeaderTerm(guard=guard, renewed_at=0, reconciler=reconciler)
        schedule = ScheduleTask(term, scheduler, clock, POLICY, lambda view: None)
        explainer = PlanExplainer(self.journal, source.offers, comparer, clock)
        return term, schedule, ExplainTask(term, explainer, clock, POLICY, lambda view: None)

    async def submit(self, job_id: str) -> None:
        spec = from_mapping({"command": ["true"]})
        await self.journal.submit(LAB, job_id, JobSubmitted(spec=spec), at_ms=1)

    async def launch(self, job_id: str) -> None:
        await self.submit(job_id)
        intent = AttemptLaunching(attempt=1, name=f"{job_id}-1", offer=OWN, ticket_sha256="")
        await self.journal.transact(SYSTEM, job_id, lambda _: [intent], at_ms=2)

    async def update(self, term: LeaderTerm, task: PeriodicTask, job_id: str) -> None:
        view = await self.journal.view(SYSTEM, job_id)
        term.views[job_id] = view
        task.update(view)


def test_a_job_that_cannot_be_explained_keeps_no_other_waiting_and_fills_no_journal() -> None:
    async def story(loop: VirtualLoop) -> None:
        office = Office(loop)
        term, _, explain = await office.open()
        await office.launch("a")
        await office.update(term, explain, "a")
        assert not explain.is_due()
        await asyncio.sleep(POLICY.explain_after_s)
        tried_at = office.clock.monotonic()
        assert explain.is_due()
        await explain.run()
        assert explain.next_at() == tried_at + EXPLAIN_RETRY_S

        await office.launch("b")
        await office.update(term, explain, "b")
        assert explain.next_at() == office.clock.monotonic() + POLICY.explain_after_s
        events = await office.journal.events(LAB, after=0, limit=99)
        assert not any(isinstance(recorded.event, JobPlanned) for recorded in events)

    run(story)


def test_scheduling_is_due_at_once_when_a_job_has_changed_and_soon_otherwise() -> None:
    async def story(loop: VirtualLoop) -> None:
        office = Office(loop)
        term, schedule, _ = await office.open()
        assert not schedule.is_due(), "no job waits"
        for job_id in ("a", "b"):
            await office.submit(job_id)
            await office.update(term, schedule, job_id)
        assert schedule.is_due()
        await schedule.run()
        assert (await office.journal.view(SYSTEM, "a")).live_attempt is not None
        assert (await office.journal.view(SYSTEM, "b")).live_attempt is None, "the machine has one slot"

        await office.update(term, schedule, "a")
        assert not schedule.is_due(), "nothing has changed since the last pass"
        assert schedule.next_at() == office.clock.monotonic() + POLICY.retry_interval_s
        term.changed = True
        assert schedule.is_due()
        term.changed = False
        await asyncio.sleep(POLICY.retry_interval_s)
        assert schedule.is_due()

    run(story)
