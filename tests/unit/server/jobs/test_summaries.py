"""A list of jobs shows the newest progress, also that of an earlier attempt, and queue positions."""

from anygpu.control.policy import ControlPolicy
from anygpu.events.types import Event
from anygpu.events.view import JobView
from anygpu.server.jobs.queue import QueueSnapshot
from anygpu.server.jobs.summaries import SummaryReader
from anygpu.store.reports import ReportBatch
from anygpu.store.scope import SYSTEM
from anygpu.testing.memory.journal import MemoryJournal
from anygpu.testing.memory.reports import MemoryReports
from anygpu.testing.samples.jobs import (
    LAB,
    START_MS,
    attempt_ended,
    attempt_training,
    job_id,
    job_submitted,
    recovery_started,
)
from anygpu.testing.simulation.virtual_time import VirtualClock, VirtualLoop


class Server:
    def __init__(self) -> None:
        self.journal, self.reports = MemoryJournal(), MemoryReports()
        clock = VirtualClock(VirtualLoop())
        queue = QueueSnapshot(self.journal, clock, ControlPolicy())
        self.reader = SummaryReader(self.reports, queue, clock)

    async def submit(self, number: int, *events: Event) -> JobView:
        await self.journal.submit(LAB, job_id(number), job_submitted(), at_ms=START_MS)
        if events:
            await self.journal.transact(SYSTEM, job_id(number), lambda view: list(events), at_ms=START_MS)
        return await self.journal.view(LAB, job_id(number))

    async def report(self, number: int, attempt: int, step: int) -> None:
        batch = ReportBatch(first=1, last=1, progress={"step": step, "steps": 100})
        await self.reports.ingest(job_id(number), attempt, batch, at_ms=START_MS)


RETRIED = (*attempt_training(1), *attempt_ended(1, exit_code=1), recovery_started(1), *attempt_training(2))


async def test_a_running_job_shows_the_progress_of_its_newest_attempt() -> None:
    server = Server()
    view = await server.submit(1, *RETRIED)
    await server.report(1, 1, step=50)
    await server.report(1, 2, step=60)
    (summary,) = await server.reader.read([view])
    assert summary["progress"]["step"] == 60


async def test_until_a_new_attempt_reports_the_progress_of_the_one_before_is_shown() -> None:
    server = Server()
    view = await server.submit(1, *RETRIED)
    await server.report(1, 1, step=50)
    earlier = await server.reader.earlier_reports([view], {})
    assert earlier[view.id].progress == {"step": 50, "steps": 100}


async def test_waiting_jobs_have_their_position_in_the_queue_and_others_none() -> None:
    server = Server()
    waiting = await server.submit(1), await server.submit(2)
    running = await server.submit(3, *attempt_training())
    summaries = await server.reader.read([*waiting, running])
    assert [summary["queue_position"] for summary in summaries] == [1, 2, None]


async def test_an_empty_list_reads_nothing() -> None:
    assert await Server().reader.read([]) == []
