"""Moving a job, and letting a kept machine go: what is accepted, and what is refused with a reason."""

from typing import Any

import pytest
from tests.unit.control.jobs_in_states import CANCEL, checkpoint, ended, training

from anygpu.control.jobs import Jobs
from anygpu.errors import Conflict, NotFound
from anygpu.events.facts import Blame, Failure
from anygpu.events.types import (
    AttemptReleased,
    CheckpointSaved,
    Event,
    HoldEnded,
    HoldStarted,
    JobCancelled,
    JobCompleted,
    JobFailed,
    JobSubmitted,
    MigrateRequested,
    StartRequested,
)
from anygpu.spec.load import from_mapping
from anygpu.store.blobs.checkpoints import Checkpoints
from anygpu.store.scope import SYSTEM, Scope
from anygpu.testing.memory.blobs import MemoryBlobs
from anygpu.testing.memory.journal import MemoryJournal
from anygpu.testing.memory.reports import MemoryReports
from anygpu.testing.simulation.virtual_time import SeededRandomness, SimWake, VirtualClock, VirtualLoop

LAB = Scope(organisation="lab", project="p", person="ada")
FAILED = JobFailed(failure=Failure(code="exit_code", message="exit 1", blame=Blame.USER))
HELD = [*training(), ended(exit_code=1), HoldStarted(attempt=1, until_ms=9)]


async def a_job(*events: Event, **placement: Any) -> tuple[Jobs, MemoryJournal]:
    loop = VirtualLoop()
    journal = MemoryJournal(now_s=loop.time)
    spec = from_mapping({"script": "train.py", "placement": placement})
    await journal.submit(LAB, "job", JobSubmitted(spec=spec), at_ms=1)
    await journal.transact(SYSTEM, "job", lambda _: events, at_ms=2)
    return Jobs(
        journal,
        MemoryReports(),
        Checkpoints(MemoryBlobs()),
        VirtualClock(loop),
        SeededRandomness("x"),
        SimWake(loop),
    ), journal


async def last(journal: MemoryJournal) -> Event:
    return (await journal.events(LAB, after=0, limit=99))[-1].event


async def test_a_wish_to_move_is_written_once_with_who_wished_it() -> None:
    jobs, journal = await a_job(*training())
    view = await jobs.migrate(LAB, "job", "other")
    again = await jobs.migrate(LAB, "job", "other")
    assert view.migrate_to == "other"
    assert again.position == view.position
    assert await last(journal) == MigrateRequested(to="other", person="ada")


@pytest.mark.parametrize(
    ("events", "placement", "to", "said"),
    [
        (training(), {}, "cloud", "already runs on the backend cloud"),
        (training(), {"forbidden": ["other"]}, "other", "may not run on the backend other"),
        (training(), {"allowed": ["cloud"]}, "other", "may not run on the backend other"),
        ([*training(), CANCEL], {}, "other", "is being cancelled"),
        (
            [*training(), ended(exit_code=0), AttemptReleased(attempt=1), JobCompleted()],
            {},
            "other",
            "is completed",
        ),
    ],
)
async def test_a_move_that_cannot_be_is_refused_with_the_reason(
    events: list[Event], placement: dict[str, Any], to: str, said: str
) -> None:
    jobs, _ = await a_job(*events, **placement)
    with pytest.raises(Conflict, match=said):
        await jobs.migrate(LAB, "job", to)


async def test_a_kept_machine_is_let_go_once() -> None:
    jobs, journal = await a_job(*HELD)
    view = await jobs.release(LAB, "job")
    assert await last(journal) == HoldEnded(attempt=1, reason="release", person="ada")
    assert (await jobs.release(LAB, "job")).position == view.position


async def test_a_job_that_holds_nothing_has_nothing_to_let_go() -> None:
    jobs, _ = await a_job(*training())
    with pytest.raises(Conflict, match="holds no machine that could be released; the job is training"):
        await jobs.release(LAB, "job")


async def test_deleting_a_job_deletes_its_reports_too() -> None:
    loop = VirtualLoop()
    journal, reports = MemoryJournal(now_s=loop.time), MemoryReports()
    jobs = Jobs(
        journal, reports, Checkpoints(MemoryBlobs()), VirtualClock(loop), SeededRandomness("x"), SimWake(loop)
    )
    written = await jobs.submit(LAB, from_mapping({"script": "train.py"}))
    job_id = written.view.id
    await reports.record_heartbeat(job_id, 1, at_ms=1)
    with pytest.raises(Conflict, match="not ended"):
        await jobs.delete(LAB, job_id)
    await journal.transact(SYSTEM, job_id, lambda _: [JobCancelled()], at_ms=2)
    await jobs.delete(LAB, job_id)
    assert (await reports.state(job_id, 1)).beats == 0
    with pytest.raises(NotFound):
        await journal.view(LAB, job_id)


async def test_a_start_is_requested_once_with_who_requested_it() -> None:
    jobs, journal = await a_job()
    view = await jobs.start(LAB, "job")
    again = await jobs.start(LAB, "job")
    assert view.start_requested_at_ms is not None
    assert again.position == view.position
    assert await last(journal) == StartRequested(person="ada")


async def test_starting_a_job_that_runs_changes_nothing_and_one_that_ends_is_refused() -> None:
    jobs, journal = await a_job(*training())
    await jobs.start(LAB, "job")
    assert await last(journal) == training()[-1]
    jobs, _ = await a_job(CANCEL)
    with pytest.raises(Conflict, match="being cancelled"):
        await jobs.start(LAB, "job")
    jobs, _ = await a_job(CANCEL, JobCancelled())
    with pytest.raises(Conflict, match="is cancelled"):
        await jobs.start(LAB, "job")


@pytest.mark.parametrize(
    ("overrides", "refused"),
    [
        ({}, False),
        ({"resources": {"nodes": 2}}, True),
        ({"launcher": "torchrun", "processes_per_node": 4}, True),
        ({"launcher": "torchrun"}, False),  # one process, as before
        ({"resources": {"nodes": 2}, "checkpoint": {"any_world_size": True}}, False),
    ],
)
async def test_a_job_resumes_with_the_same_number_of_processes(
    overrides: dict[str, Any], refused: bool
) -> None:
    saved = CheckpointSaved(attempt=1, checkpoint=checkpoint(4))
    events = [*training(), saved, ended(exit_code=1), AttemptReleased(attempt=1), FAILED]
    jobs, _ = await a_job(*events)
    if refused:
        with pytest.raises(Conflict, match="were saved by 1 process, and the new job has"):
            await jobs.resume(LAB, "job", overrides)
    else:
        resumed = await jobs.resume(LAB, "job", overrides)
        assert resumed.view.resumed_from == "job"
