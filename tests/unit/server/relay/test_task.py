"""Which mailboxes the relay task looks at, and when it removes them. Virtual time, mailboxes in memory."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import replace
from typing import Any

from anygpu.agent.link.mailbox import encode_head
from anygpu.agent.link.relay import SLOWEST_BYTES_PER_S
from anygpu.backends.relay.contract import MailboxFile, RelayTransport
from anygpu.control.ids import attempt_name
from anygpu.errors import BackendUnavailable
from anygpu.events.fold import Recorded, fold
from anygpu.events.types import Event
from anygpu.events.view import JobView
from anygpu.server.relay.pump import TRY_FOR_S
from anygpu.server.relay.task import (
    MAX_LEFTOVERS_S,
    REMOVE_AFTER_S,
    REMOVE_LIMIT_S,
    REMOVE_TRIES,
    RelayTask,
)
from anygpu.testing.memory.journal import MemoryJournal
from anygpu.testing.samples.jobs import LAB, attempt_ended, attempt_training, job_id, job_submitted
from anygpu.testing.simulation.faults import FaultInjector
from anygpu.testing.simulation.relay import SimRelay
from anygpu.testing.simulation.virtual_time import VirtualClock, VirtualLoop, run


class RelayedBackend:
    """The one property of a backend that the task uses."""

    def __init__(self, relay: RelayTransport) -> None:
        self.relay = relay


class CountingRelay(SimRelay):
    """A relay that records what it is asked for, and may hang or refuse to remove mailboxes."""

    def __init__(self, loop: VirtualLoop) -> None:
        faults = FaultInjector("none", {}, 0.0, loop.time, lambda line: None)
        super().__init__(loop, faults, print)
        self.listings: list[tuple[str, ...]] = []
        self.hangs = self.keeps = self.is_full = False
        self.slow = ""  # a mailbox whose removal does not end

    async def versions(self, mailboxes: Mapping[str, int]) -> Mapping[str, Mapping[str, str]]:
        self.listings.append(tuple(sorted(mailboxes)))
        if self.hangs:
            await asyncio.Event().wait()
        return await super().versions(mailboxes)

    async def write(self, file: MailboxFile, pieces: AsyncIterator[bytes]) -> None:
        if self.is_full:
            raise BackendUnavailable("no space left on device")
        await super().write(file, pieces)

    async def remove(self, mailbox: str) -> None:
        if self.keeps:
            raise BackendUnavailable("somebody made it read-only")
        if mailbox == self.slow:
            await asyncio.Event().wait()
        await super().remove(mailbox)


class TaskRig:
    """A relay task with two backends."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.first, self.second = CountingRelay(loop), CountingRelay(loop)
        self.reports: list[str] = []
        self.served: list[int] = []
        self.backends = {"first": RelayedBackend(self.first), "second": RelayedBackend(self.second)}
        backends: Any = self.backends
        process: Any = self
        self.name = "process"
        self.journal = MemoryJournal(now_s=loop.time)
        self.task = RelayTask(
            backends,
            self.journal,
            self.first.handler(process),
            VirtualClock(loop),
            lambda text, error: self.reports.append(text),
            [self.first],
        )

    async def add(self, number: int, backend: str) -> str:
        """Add a running attempt with a mailbox, and return its name."""
        view = view_of(number, backend)
        self.task.update(view)
        relay = self.first if backend == "first" else self.second
        await relay.open(view.attempts[0].name)
        return view.attempts[0].name

    def end(self, number: int, backend: str) -> None:
        self.task.update(view_of(number, backend, *attempt_ended()))
        self.task.forget(job_id(number))

    async def run_for(self, seconds: float) -> None:
        """Run the task whenever it is due, as the supervisor does."""
        until = asyncio.get_running_loop().time() + seconds
        running: asyncio.Task[None] | None = None
        while asyncio.get_running_loop().time() < until:
            if self.task.is_due():
                running = asyncio.create_task(self.task.run())
            await asyncio.sleep(0.5)
        if running is not None:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


def view_of(number: int, backend: str, *more: Event) -> JobView:
    launching, *rest = attempt_training(backend=backend)
    name = attempt_name(job_id(number), 1)
    events = [job_submitted(), replace(launching, name=name), *rest, *more]  # type: ignore[call-arg]
    view = fold(
        Recorded(
            organisation=LAB.organisation,
            project=LAB.project,
            position=position,
            job_id=job_id(number),
            at_ms=position,
            event=event,
        )
        for position, event in enumerate(events, 1)
    )
    assert view is not None
    return view


def in_virtual_time(story: Callable[[TaskRig], Coroutine[Any, Any, None]]) -> None:
    run(lambda loop: story(TaskRig(loop)))


def write_request(rig: TaskRig, relay: SimRelay, mailbox: str, request_id: str = "a", size: int = 0) -> None:
    """Write a request whose body is filled with spaces up to `size`."""

    async def call(process: Any) -> str:
        rig.served.append(1)
        return "done"

    rig.first.calls.append(call)
    body = str(len(rig.first.calls) - 1).encode().ljust(size)
    head = {"id": request_id, "method": "POST", "path": "/", "headers": {}, "size": len(body)}
    relay.write_request(mailbox, "0-0.request", encode_head(head) + body)


def test_one_listing_serves_all_live_attempts_and_ended_ones_cost_nothing() -> None:
    async def story(rig: TaskRig) -> None:
        names = [await rig.add(number, "first") for number in range(3)]
        await rig.run_for(5)
        assert set(rig.first.listings) == {tuple(sorted(names))}
        for number in range(2):
            rig.end(number, "first")
        await rig.run_for(REMOVE_AFTER_S + 10)
        rig.first.listings.clear()
        await rig.run_for(60)
        assert set(rig.first.listings) == {(names[2],)}
        assert rig.second.listings == []

    in_virtual_time(story)


def test_a_mailbox_is_answered_for_a_while_after_the_end_and_then_removed() -> None:
    async def story(rig: TaskRig) -> None:
        name = await rig.add(1, "first")
        await rig.run_for(1)
        rig.end(1, "first")
        write_request(rig, rig.first, name)
        await rig.run_for(REMOVE_AFTER_S / 2)
        assert rig.served == [1]
        assert name in rig.first.files
        await rig.run_for(REMOVE_AFTER_S)
        assert rig.first.files == {}

    in_virtual_time(story)


def test_the_last_request_of_a_dead_agent_is_no_sign_of_life_for_ever() -> None:
    """If its answer cannot be written, a request is handled again, but not for longer than an agent waits."""

    async def story(rig: TaskRig) -> None:
        name = await rig.add(1, "first")
        rig.first.is_full = True
        write_request(rig, rig.first, name)
        running = asyncio.create_task(rig.run_for(TRY_FOR_S + 700))
        await asyncio.sleep(TRY_FOR_S + 30)
        served = len(rig.served)
        assert served > 1
        await asyncio.sleep(600)
        assert len(rig.served) == served
        rig.first.is_full = False
        write_request(rig, rig.first, name, "b")
        await running
        assert len(rig.served) == served + 1

    in_virtual_time(story)


def test_a_large_request_is_handled_again_for_as_long_as_the_agent_waits() -> None:
    async def story(rig: TaskRig) -> None:
        name = await rig.add(1, "first")
        rig.first.is_full = True
        write_request(rig, rig.first, name, size=100 * SLOWEST_BYTES_PER_S)
        running = asyncio.create_task(rig.run_for(TRY_FOR_S + 200))
        await asyncio.sleep(TRY_FOR_S + 30)
        served = len(rig.served)
        await asyncio.sleep(50)
        assert len(rig.served) > served
        await asyncio.sleep(30)
        served = len(rig.served)
        await running
        assert len(rig.served) == served

    in_virtual_time(story)


def test_mailboxes_of_a_removed_backend_are_removed_from_a_shared_relay() -> None:
    async def story(rig: TaskRig) -> None:
        name = await rig.add(1, "first")
        await rig.run_for(1)
        events = [job_submitted(), *view_events(1, "first"), *attempt_ended()]
        await rig.journal.submit(LAB, job_id(1), events[0], at_ms=1)  # type: ignore[arg-type]
        await rig.journal.transact(LAB, job_id(1), lambda view: events[1:], at_ms=2)
        rig.end(1, "first")
        del rig.backends["first"]
        assert name in rig.first.files
        await rig.run_for(REMOVE_AFTER_S + MAX_LEFTOVERS_S)
        assert rig.first.files == {}

    in_virtual_time(story)


def test_without_mailboxes_the_task_sleeps() -> None:
    async def story(rig: TaskRig) -> None:
        await rig.run_for(5)
        assert rig.first.listings == rig.second.listings == []
        assert not rig.task.is_due()
        await rig.run_for(10 * MAX_LEFTOVERS_S)
        assert rig.first.listings == []

    in_virtual_time(story)


def test_a_relay_that_hangs_does_not_delay_the_others() -> None:
    async def story(rig: TaskRig) -> None:
        await rig.add(1, "first")
        slow = await rig.add(2, "second")
        rig.second.hangs = True
        await rig.run_for(100)
        assert len(rig.first.listings) >= 40
        assert set(rig.second.listings) == {(slow,)}
        assert rig.reports == ["the mailboxes of a relay could not be read; they are read again"], "told once"

    in_virtual_time(story)


def test_a_mailbox_that_cannot_be_removed_is_given_up_and_found_again_later() -> None:
    async def story(rig: TaskRig) -> None:
        name = await rig.add(1, "first")
        await rig.run_for(1)
        rig.first.keeps = True
        rig.end(1, "first")
        await rig.run_for((REMOVE_TRIES + 2) * REMOVE_AFTER_S)
        assert len([text for text in rig.reports if "could not be removed" in text]) == REMOVE_TRIES
        assert name in rig.first.files

    in_virtual_time(story)


def test_a_mailbox_whose_removal_takes_long_delays_no_other() -> None:
    async def story(rig: TaskRig) -> None:
        slow, other, live = [await rig.add(number, "first") for number in range(3)]
        await rig.run_for(1)
        rig.first.slow = slow
        running = asyncio.create_task(rig.run_for(REMOVE_AFTER_S + 120))
        for number in range(2):
            rig.end(number, "first")
        await asyncio.sleep(REMOVE_AFTER_S + 10)
        assert other not in rig.first.files
        rig.first.listings.clear()
        write_request(rig, rig.first, live)
        await asyncio.sleep(10)
        assert rig.served == [1]
        assert set(rig.first.listings) == {(live,)}, "nothing is answered in a mailbox that is being removed"
        await running
        assert rig.reports == []

    in_virtual_time(story)


def test_a_removal_that_never_ends_is_given_up_and_reported() -> None:
    async def story(rig: TaskRig) -> None:
        rig.first.slow = await rig.add(1, "first")
        await rig.run_for(1)
        rig.end(1, "first")
        await rig.run_for(REMOVE_TRIES * (REMOVE_AFTER_S + REMOVE_LIMIT_S) + 60)
        assert len([text for text in rig.reports if "could not be removed" in text]) == REMOVE_TRIES
        assert not rig.task.is_due()

    in_virtual_time(story)


def test_mailboxes_that_an_earlier_server_left_are_removed_and_foreign_ones_are_kept() -> None:
    async def story(rig: TaskRig) -> None:
        events = [job_submitted(), *view_events(1), *attempt_ended()]
        await rig.journal.submit(LAB, job_id(1), events[0], at_ms=1)  # type: ignore[arg-type]
        await rig.journal.transact(LAB, job_id(1), lambda view: events[1:], at_ms=2)
        mine, foreign = attempt_name(job_id(1), 1), attempt_name(job_id(2), 1)
        for name in (mine, foreign, "somebody-elses"):
            await rig.second.open(name)
        await rig.run_for(5)
        assert sorted(rig.second.files) == sorted([foreign, "somebody-elses"])

    in_virtual_time(story)


def view_events(number: int, backend: str = "second") -> list[Event]:
    launching, *rest = attempt_training(backend=backend)
    name = attempt_name(job_id(number), 1)
    return [replace(launching, name=name), *rest]  # type: ignore[call-arg]
