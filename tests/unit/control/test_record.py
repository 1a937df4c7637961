"""Events are decided again inside the transaction, and only for the process that holds the lease."""

import pytest

from anygpu.control.record import EventRecorder
from anygpu.errors import LeaseLost
from anygpu.events.types import CancelRequested, Event
from anygpu.events.view import JobView
from anygpu.store.journal import Guard
from anygpu.testing.memory.journal import MemoryJournal
from anygpu.testing.samples.jobs import LAB, START_MS, job_id, job_submitted
from anygpu.testing.simulation.virtual_time import VirtualClock, VirtualLoop


def cancel(view: JobView) -> list[Event]:
    return [] if view.cancel_requested else [CancelRequested()]


async def submitted(journal: MemoryJournal) -> JobView:
    return (await journal.submit(LAB, job_id(1), job_submitted(), at_ms=START_MS)).view


async def lease(journal: MemoryJournal, holder: str) -> Guard:
    guard = await journal.acquire("control", holder, ttl_s=60)
    assert guard is not None
    return guard


async def test_the_events_are_written_and_the_new_state_is_returned() -> None:
    journal = MemoryJournal()
    view, guard = await submitted(journal), await lease(journal, "a")
    recorder = EventRecorder(journal, VirtualClock(VirtualLoop()))
    after = await recorder.record(view, cancel, guard)
    assert after is not None
    assert after.cancel_requested
    assert await recorder.record(after, cancel, guard) is None


async def test_a_decision_on_an_old_state_is_made_again_on_the_current_one() -> None:
    journal = MemoryJournal()
    view, guard = await submitted(journal), await lease(journal, "a")
    recorder = EventRecorder(journal, VirtualClock(VirtualLoop()))
    await recorder.record(view, cancel, guard)
    assert await recorder.record(view, cancel, guard) is None
    events = await journal.events(LAB, after=0, limit=10)
    assert [type(each.event).__name__ for each in events] == ["JobSubmitted", "CancelRequested"]


async def test_a_process_that_has_lost_the_lease_writes_nothing() -> None:
    now_s = 0.0
    journal = MemoryJournal(now_s=lambda: now_s)
    view, guard = await submitted(journal), await lease(journal, "a")
    now_s = 100.0
    await lease(journal, "b")
    recorder = EventRecorder(journal, VirtualClock(VirtualLoop()))
    with pytest.raises(LeaseLost):
        await recorder.record(view, cancel, guard)
    assert len(await journal.events(LAB, after=0, limit=10)) == 1
