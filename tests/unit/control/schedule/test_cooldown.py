"""A place that failed is left alone for a while, longer each time; the others are not."""

import asyncio
from dataclasses import replace

from tests.unit.control.jobs_in_states import launched, launching, lost, recovering, stopping, training, view

from anygpu.control.policy import ControlPolicy
from anygpu.control.schedule.cooldown import Cooldown
from anygpu.events.facts import Blame
from anygpu.events.offers import OfferKey
from anygpu.events.types import AttemptEnded, Event, StopRequested
from anygpu.events.view import JobView
from anygpu.testing.simulation.virtual_time import VirtualClock, VirtualLoop, run

POLICY = ControlPolicy(cooldown_base_s=10, cooldown_max_s=35)
CLOUD: OfferKey = ("cloud", "", "", "", False)


def times(number: int, code: str = "no_capacity") -> JobView:
    """A job that was refused so many times."""
    events: list[Event] = []
    for attempt in range(1, number + 1):
        refusal = lost(attempt, code=code, blame=Blame.LAUNCH)
        events += [launching(attempt), refusal, recovering(attempt, counts=False)]
    return view(*events)


def test_a_place_that_refuses_is_closed_for_longer_each_time_up_to_a_bound() -> None:
    async def story(loop: VirtualLoop) -> list[float]:
        cooling, pauses = Cooldown(VirtualClock(loop), POLICY), []
        for number in range(1, 5):
            cooling.observe([times(number)])
            began = loop.time()
            while CLOUD in cooling.blocked_offers():
                cooling.observe([times(number)])  # seen again at every pass, counted once
                await asyncio.sleep(1)
            pauses.append(loop.time() - began)
        return pauses

    assert run(story) == [10, 20, 35, 35]


def test_a_start_that_worked_makes_up_for_the_failures_before() -> None:
    async def story(loop: VirtualLoop) -> bool:
        cooling = Cooldown(VirtualClock(loop), POLICY)
        for number in (1, 2, 3):
            cooling.observe([times(number)])
        await asyncio.sleep(100)
        cooling.observe([view(*training())])
        cooling.observe([times(1)])
        await asyncio.sleep(11)
        return CLOUD in cooling.blocked_offers()

    assert run(story) is False


def outages(number: int) -> JobView:
    """A job that was launched so many times while its backend could not be reached."""
    return times(number, "backend_unavailable")


def test_a_backend_that_cannot_be_reached_is_closed_for_longer_each_time_up_to_a_bound() -> None:
    async def story(loop: VirtualLoop) -> list[tuple[float, float]]:
        cooling, pauses = Cooldown(VirtualClock(loop), POLICY), []
        for number in range(1, 5):
            cooling.observe([outages(number)])
            began = loop.time()
            while "cloud" in cooling.blocked_backends():
                await asyncio.sleep(0.5)
            of_backend = loop.time() - began
            while CLOUD in cooling.blocked_offers():
                await asyncio.sleep(0.5)
            pauses.append((of_backend, loop.time() - began))
        return pauses

    assert run(story) == [(5, 10), (10, 20), (17.5, 35), (17.5, 35)]


def test_jobs_that_fail_together_in_an_outage_count_once() -> None:
    async def story(loop: VirtualLoop) -> tuple[float, set[str]]:
        cooling = Cooldown(VirtualClock(loop), POLICY)
        cooling.observe([replace(outages(1), id=f"job{number}") for number in range(10)])
        return cooling.next_at(), set(cooling.blocked_backends().values())

    assert run(story) == (5, {"cloud: backend_unavailable"})


def test_a_launch_that_worked_ends_the_outage() -> None:
    async def story(loop: VirtualLoop) -> list[float]:
        cooling = Cooldown(VirtualClock(loop), POLICY)
        for number in (1, 2, 3):
            cooling.observe([outages(number)])
            await asyncio.sleep(18)
        cooling.observe([outages(4)])
        cooling.observe([view(*launched())])
        assert not cooling.blocked_backends()
        cooling.observe([outages(1)])
        began, (reason,) = loop.time(), cooling.blocked_backends().values()
        while cooling.blocked_backends():
            await asyncio.sleep(0.5)
        assert reason == "cloud: backend_unavailable"
        return [loop.time() - began]

    assert run(story) == [5]


def test_a_refused_launch_does_not_close_the_other_offers_of_the_backend() -> None:
    cooling = Cooldown(VirtualClock(VirtualLoop()), POLICY)
    cooling.observe([times(1)])
    assert cooling.blocked_backends() == {}


def test_a_place_that_took_a_machine_back_comes_last_but_is_not_closed() -> None:
    cooling = Cooldown(VirtualClock(VirtualLoop()), POLICY)
    cooling.observe([view(*training(), lost(code="preempted", blame=Blame.PREEMPTION))])
    assert cooling.recently_preempted() == {CLOUD}
    assert cooling.blocked_offers() == {}


def test_a_planned_move_is_not_held_against_the_place() -> None:
    cooling = Cooldown(VirtualClock(VirtualLoop()), POLICY)
    cooling.observe([view(*training(), stopping("migrate"), AttemptEnded(attempt=1, outcome="stopped"))])
    assert not cooling.recently_preempted()
    assert not cooling.blocked_offers()


def test_it_says_when_the_first_closed_place_may_be_tried_again() -> None:
    async def story(loop: VirtualLoop) -> list[float]:
        cooling = Cooldown(VirtualClock(loop), POLICY)
        before = cooling.next_at()
        cooling.observe([times(1)])
        return [before, cooling.next_at() - loop.time()]

    assert run(story) == [float("inf"), 10]


def test_a_machine_whose_job_made_room_for_another_is_as_good_as_before() -> None:
    room = StopRequested(attempt=1, reason="preempt", makes_room_for="other")
    cooling = Cooldown(VirtualClock(VirtualLoop()), POLICY)
    cooling.observe([view(*training(), room, AttemptEnded(attempt=1, outcome="stopped"))])
    assert cooling.recently_preempted() == frozenset()
    assert cooling.blocked_offers() == {}
