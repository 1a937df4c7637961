"""What a project does and spends now."""

import asyncio

from anygpu.control.policy import ControlPolicy
from anygpu.events.offers import Handle, Offer
from anygpu.events.types import AttemptLaunched, AttemptLaunching, Event
from anygpu.server.jobs.project_summary import OrphanCounter, summarise_project
from anygpu.server.jobs.queue import QueueSnapshot
from anygpu.store.scope import SYSTEM, Scope
from anygpu.testing.memory.journal import MemoryJournal
from anygpu.testing.samples.jobs import (
    LAB,
    LAB_OTHER_PROJECT,
    START_MS,
    attempt_training,
    job_id,
    job_submitted,
)
from anygpu.testing.simulation.virtual_time import VirtualClock, VirtualLoop

RENTED = Offer(backend="cloud", name="small", price_microusd_per_hour=500_000)


def rented() -> list[Event]:
    return [
        AttemptLaunching(attempt=1, name="anygpu-1", offer=RENTED, ticket_sha256=""),
        AttemptLaunched(attempt=1, handle=Handle(name="anygpu-1")),
    ]


async def submit(journal: MemoryJournal, scope: Scope, number: int, *events: Event) -> None:
    await journal.submit(scope, job_id(number), job_submitted(), at_ms=START_MS)
    if events:
        await journal.transact(SYSTEM, job_id(number), lambda view: list(events), at_ms=START_MS)


async def test_a_project_counts_its_own_jobs_and_rented_machines() -> None:
    journal = MemoryJournal()
    await submit(journal, LAB, 1)
    await submit(journal, LAB, 2, *rented())
    await submit(journal, LAB, 3, *attempt_training())  # on the server's own machine
    await submit(journal, LAB_OTHER_PROJECT, 4, *rented())
    queue = QueueSnapshot(journal, VirtualClock(VirtualLoop()), ControlPolicy())
    summary = await summarise_project(journal, queue, LAB, machines_without_job=2, spent=(3, 40))
    assert (summary.project, summary.active, summary.queued) == ("vision", 3, 1)
    assert (summary.machines, summary.hourly_microusd) == (1, 500_000)
    assert (summary.machines_without_job, summary.today_microusd, summary.month_microusd) == (2, 3, 40)


async def test_machines_without_a_job_are_counted_in_the_background_once() -> None:
    asked: list[str] = []

    async def count() -> int:
        asked.append("providers")
        return 3

    counter = OrphanCounter(count)
    assert counter.newest() is None
    for _ in range(3):
        await asyncio.sleep(0)
    assert [counter.newest() for _ in range(3)] == [3, 3, 3]
    assert asked == ["providers"]
