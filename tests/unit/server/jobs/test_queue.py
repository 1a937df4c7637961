"""The shared snapshot of live jobs, and predicted times at which waiting jobs start."""

import asyncio
from collections.abc import Sequence
from typing import Any

from anygpu.control.policy import ControlPolicy
from anygpu.control.schedule.queue import SlotUse, pool_job
from anygpu.events.fold import Recorded, fold
from anygpu.events.offers import Offer
from anygpu.events.types import AttemptLaunching, Event, JobSubmitted
from anygpu.events.view import JobView
from anygpu.server.jobs.queue import QueueSnapshot, predicted_waits
from anygpu.server.process.clock import SystemClock
from anygpu.spec.load import from_mapping
from anygpu.testing.memory.journal import MemoryJournal
from anygpu.testing.samples.jobs import LAB, START_MS, job_id, job_submitted

BOX = Offer(backend="box", cpus=2, free=2, own=True)
NOW_MS = 10_000


def job(name: str, *events: Event, duration: str = "", **spec: Any) -> JobView:
    placement = {"expected_duration": duration} if duration else {}
    submitted = JobSubmitted(spec=from_mapping({"command": ["true"], "placement": placement, **spec}))
    view = fold(
        Recorded(organisation="lab", project="p", position=at, job_id=name, at_ms=0, event=event)
        for at, event in enumerate((submitted, *events), start=1)
    )
    assert view is not None
    return view


def waits(running: list[JobView], waiting: list[JobView]) -> dict[str, float]:
    uses = [SlotUse(view, view.attempts[0]) for view in running]
    views = {view.id: view for view in (*running, *waiting)}
    return predicted_waits(views, [pool_job(view, NOW_MS) for view in waiting], uses, NOW_MS)


def on_box(name: str, duration: str = "") -> JobView:
    return job(name, AttemptLaunching(attempt=1, name=name, offer=BOX, ticket_sha256=""), duration=duration)


def test_a_job_starts_when_the_jobs_before_it_are_predicted_to_end() -> None:
    running = [on_box("a", "60s"), on_box("b", "100s")]
    waiting = [job("c", duration="20s"), job("d"), job("e", resources={"cpus": 2}), job("f")]
    assert waits(running, waiting) == {"c": 50.0, "d": 70.0}


def test_nothing_is_predicted_from_a_job_without_prediction_or_beyond_it() -> None:
    assert waits([on_box("a")], [job("b")]) == {}
    assert waits([on_box("a", "5s")], [job("b")]) == {}
    assert waits([on_box("a", "60s")], [job("b", resources={"gpu": 1})]) == {}


class SlowJournal(MemoryJournal):
    """A journal that answers when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.opened, self.reads = asyncio.Event(), 0

    async def live(self) -> Sequence[JobView]:
        self.reads += 1
        await self.opened.wait()
        return await super().live()


async def test_requests_at_the_same_time_share_one_snapshot_and_none_sees_an_older_one() -> None:
    journal = SlowJournal()
    await journal.submit(LAB, job_id(1), job_submitted(), at_ms=START_MS)
    snapshot = QueueSnapshot(journal, SystemClock(), ControlPolicy())
    requests = [asyncio.create_task(snapshot.live()) for _ in range(3)]
    await asyncio.sleep(0)
    journal.opened.set()
    assert [[view.id for view in answer] for answer in await asyncio.gather(*requests)] == [[job_id(1)]] * 3
    assert journal.reads == 1
