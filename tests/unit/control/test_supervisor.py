"""The supervisor: how long it sleeps, and what it does with views that arrive out of order."""

import asyncio
from dataclasses import replace
from typing import Any

from anygpu.control.policy import ControlPolicy
from anygpu.control.supervisor import MIN_SLEEP_S, Supervisor
from anygpu.control.term import LeaderTerm, PeriodicTask
from anygpu.control.timers import NEVER
from anygpu.events.types import JobSubmitted
from anygpu.events.view import JobView
from anygpu.spec.load import from_mapping
from anygpu.store.scope import SYSTEM, Scope
from anygpu.testing.memory.journal import MemoryJournal
from anygpu.testing.simulation.virtual_time import SimWake, VirtualClock, VirtualLoop, run

LAB = Scope(organisation="lab", project="p")
POLICY = ControlPolicy()


class Recording(PeriodicTask):
    """A task that is due when the test says so, and remembers what it was told."""

    name = "recording"

    def __init__(self) -> None:
        self.at = NEVER
        self.updated: list[JobView] = []
        self.forgotten: list[str] = []

    def update(self, view: JobView) -> None:
        self.updated.append(view)

    def forget(self, job_id: str) -> None:
        self.forgotten.append(job_id)

    def is_due(self) -> bool:
        return False

    def next_at(self) -> float:
        return self.at

    async def run(self) -> None:
        raise AssertionError


async def _term(
    loop: VirtualLoop, journal: MemoryJournal
) -> tuple[Supervisor, LeaderTerm, Recording, VirtualClock]:
    clock, task, no_reconciler = VirtualClock(loop), Recording(), Any
    supervisor = Supervisor(
        journal,
        lambda: no_reconciler,  # type: ignore[arg-type, return-value]
        lambda term, update, reconcile_soon: [task],
        clock,
        SimWake(loop),
        POLICY,
        "me",
        lambda what, error: None,
    )
    guard = await journal.acquire("control", "me", ttl_s=9999)
    assert guard is not None
    term = supervisor._new_term(guard)
    term.reloaded_at = clock.monotonic()
    return supervisor, term, task, clock


async def _submitted(journal: MemoryJournal, job_id: str) -> JobView:
    await journal.submit(LAB, job_id, JobSubmitted(spec=from_mapping({"command": ["true"]})), at_ms=1)
    return await journal.view(SYSTEM, job_id)


def test_the_loop_does_not_sleep_past_a_job_that_became_due_after_the_round_checked_it() -> None:
    async def story(loop: VirtualLoop) -> None:
        supervisor, term, _, clock = await _term(loop, MemoryJournal(now_s=loop.time))
        term.reconcile_timers.set("later", clock.monotonic() + 0.5)
        assert supervisor._sleep_s(term) == 0.5
        term.reconcile_timers.set("due by now", clock.monotonic() - 0.001)
        assert supervisor._sleep_s(term) == MIN_SLEEP_S

    run(story)


def test_the_loop_does_not_sleep_past_a_task_that_is_due_unless_it_runs_already() -> None:
    async def story(loop: VirtualLoop) -> None:
        supervisor, term, task, clock = await _term(loop, MemoryJournal(now_s=loop.time))
        term.reconcile_timers.set("later", clock.monotonic() + 5)
        task.at = clock.monotonic() - 0.001
        assert supervisor._sleep_s(term) == MIN_SLEEP_S
        term.running[task.name] = asyncio.create_task(asyncio.sleep(0))
        assert supervisor._sleep_s(term) == 5

    run(story)


def test_the_loop_sleeps_until_the_next_reload_when_nothing_else_is_due() -> None:
    async def story(loop: VirtualLoop) -> None:
        supervisor, term, _, _ = await _term(loop, MemoryJournal(now_s=loop.time))
        assert supervisor._sleep_s(term) == POLICY.poll_s

    run(story)


def test_the_loop_does_not_sleep_forever_when_the_reload_is_due_at_this_very_moment() -> None:
    async def story(loop: VirtualLoop) -> None:
        supervisor, term, _, clock = await _term(loop, MemoryJournal(now_s=loop.time))
        term.reloaded_at = clock.monotonic() - POLICY.poll_s
        assert supervisor._sleep_s(term) == MIN_SLEEP_S

    run(story)


def test_an_older_view_does_not_replace_a_newer_one() -> None:
    async def story(loop: VirtualLoop) -> None:
        journal = MemoryJournal(now_s=loop.time)
        supervisor, term, task, _ = await _term(loop, journal)
        view = await _submitted(journal, "a")
        supervisor._update(term, view)
        supervisor._update(term, replace(view, position=view.position - 1))
        assert task.updated == [view]
        supervisor._forget(term, "a")
        assert task.forgotten == ["a"]

    run(story)


def test_a_supervisor_that_is_stopped_releases_the_lease_at_once() -> None:
    async def story(loop: VirtualLoop) -> None:
        journal = MemoryJournal(now_s=loop.time)
        supervisor, _, _, _ = await _term(loop, journal)
        assert await journal.acquire("control", "other", ttl_s=60) is None
        running = asyncio.create_task(supervisor.run())
        await asyncio.sleep(1)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await supervisor.release_lease()
        assert await journal.acquire("control", "other", ttl_s=60) is not None

    run(story)
