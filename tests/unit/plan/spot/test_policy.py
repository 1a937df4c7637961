"""Spot with a deadline: never late, never a surprise."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anygpu.plan.spot.availability import SpotAvailability
from anygpu.plan.spot.policy import ON_DEMAND, WAIT, MachineChoice, SpotJob, TickState, choose_machine
from anygpu.plan.spot.replay import POLICIES, replay

HOUR_S = 3600.0
TICK_S = 600.0


def job(
    *,
    work_h: float = 10,
    deadline_h: float = 12,
    restart_h: float = 0.1,
    spot: float = 1.0,
    zones: str = "abc",
    blind_s: float = 0.0,
) -> SpotJob:
    return SpotJob(
        work_s=work_h * HOUR_S,
        deadline_s=deadline_h * HOUR_S,
        restart_s=restart_h * HOUR_S,
        on_demand_usd_per_hour=3.0,
        spot_usd_per_hour=dict.fromkeys(zones, spot),
        detection_s=blind_s,
    )


def moment(
    now_h: float = 0,
    left_h: float = 10,
    available: str = "",
    running: MachineChoice = WAIT,
    starting_s: float = 0,
) -> TickState:
    return TickState(
        now_s=now_h * HOUR_S,
        work_left_s=left_h * HOUR_S,
        available=tuple(available),
        running=running,
        starting_s=starting_s,
        tick_s=TICK_S,
    )


def weather(*looks: str, zones: str = "abc") -> SpotAvailability:
    found = SpotAvailability.initial(zones, TICK_S)
    for available in looks:
        found = found.observe(available)
    return found


@st.composite
def worlds(draw: st.DrawFn) -> tuple[SpotJob, dict[str, list[int]], float]:
    """A job that on-demand could just finish in time or better, and any availability of one to three zones."""
    tick_s = draw(st.sampled_from([60.0, 300.0, 600.0, 3600.0]))
    restart_s = draw(st.integers(0, 7200))
    work_s = draw(st.integers(1, 100_000))
    deadline_s = work_s + restart_s + draw(st.integers(0, 80_000))
    zones = "abc"[: draw(st.integers(1, 3))]
    chance = random.Random(draw(st.integers(0, 10**6)))
    stays = draw(st.sampled_from([0.2, 0.5, 0.9, 0.99]))
    ticks = int(min(deadline_s // tick_s + 2, 1500))
    asked = SpotJob(
        work_s=work_s,
        deadline_s=deadline_s,
        restart_s=restart_s,
        on_demand_usd_per_hour=3.06,
        spot_usd_per_hour=dict.fromkeys(zones, 0.97),
    )
    return asked, {zone: _weather_of(chance, stays, ticks) for zone in zones}, tick_s


def _weather_of(chance: random.Random, stays: float, ticks: int) -> list[int]:
    found = [chance.randint(0, 1)]
    while len(found) < ticks:
        found.append(found[-1] if chance.random() < stays else 1 - found[-1])
    return found


@settings(max_examples=40, deadline=None)
@given(world=worlds())
@pytest.mark.parametrize("name", POLICIES)
def test_no_policy_is_late_when_on_demand_from_the_start_could_be_on_time(
    name: str, world: tuple[SpotJob, dict[str, list[int]], float]
) -> None:
    asked, availability, tick_s = world
    outcome = replay(asked, availability, tick_s, POLICIES[name])
    assert not outcome.late
    assert outcome.finished_s <= asked.deadline_s + 1e-3


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), slack_ticks=st.integers(0, 40), restart_s=st.integers(0, 1500))
def test_machines_that_die_unseen_make_nothing_late_when_that_is_allowed_for(
    seed: int, slack_ticks: int, restart_s: int
) -> None:
    """Each tick on spot may come to nothing, and is only noticed at the next."""
    chance = random.Random(seed)
    work_s = 60 * TICK_S
    asked = SpotJob(
        work_s=work_s,
        deadline_s=work_s + restart_s + slack_ticks * TICK_S,
        restart_s=restart_s,
        on_demand_usd_per_hour=3.0,
        spot_usd_per_hour={"a": 1.0},
        detection_s=TICK_S,
    )
    now_s, left_s, running, starting_s = 0.0, work_s, WAIT, 0.0
    seen = SpotAvailability.initial("a", TICK_S)
    while left_s > 0:
        available = ("a",) if chance.random() < 0.7 else ()
        seen = seen.observe(available)
        if running.kind == "spot" and not available:
            running = WAIT
        at = TickState(
            now_s=now_s, work_left_s=left_s, available=available, running=running, starting_s=starting_s
        )
        chosen = choose_machine(asked, at, seen).choice
        starting_s = restart_s if chosen != running else starting_s
        dies = chosen.kind == "spot" and chance.random() < 0.4
        needed_s = TICK_S if chosen == WAIT or dies else min(TICK_S, starting_s + left_s)
        if chosen != WAIT and not dies:
            left_s -= max(0.0, needed_s - starting_s)
            starting_s = max(0.0, starting_s - needed_s)
        running = WAIT if dies else chosen
        now_s += needed_s
    assert now_s <= asked.deadline_s + 1e-3


@settings(max_examples=40, deadline=None)
@given(world=worlds())
def test_the_same_history_gives_the_same_outcome(
    world: tuple[SpotJob, dict[str, list[int]], float],
) -> None:
    asked, availability, tick_s = world
    again = dict(reversed(availability.items()))
    assert replay(asked, availability, tick_s, choose_machine) == replay(asked, again, tick_s, choose_machine)


def test_spot_is_taken_when_it_is_there() -> None:
    assert choose_machine(job(), moment(available="b"), weather("b")).choice == MachineChoice("spot", "b")


def test_the_zone_that_has_lasted_is_preferred() -> None:
    looks = ["a"] * 30 + ["ac"]
    assert choose_machine(job(), moment(available="ca"), weather(*looks)).choice == MachineChoice("spot", "a")


def test_without_spot_a_job_with_time_to_spare_waits() -> None:
    found = choose_machine(job(deadline_h=20), moment(), weather(""))
    assert found.choice == WAIT
    assert "left to wait" in found.reason


def test_without_spot_a_job_with_little_to_spare_takes_on_demand() -> None:
    found = choose_machine(job(deadline_h=10.4), moment(), weather(""))
    assert found.choice == ON_DEMAND
    assert "reserved for restarts" in found.reason


def test_a_job_that_cannot_be_on_time_any_more_takes_on_demand_at_once() -> None:
    assert choose_machine(job(deadline_h=9), moment(available="a"), weather("a")).choice == ON_DEMAND


def test_on_demand_is_not_left_for_a_zone_that_flaps() -> None:
    flapping = weather(*["a", ""] * 60, "a")
    at = moment(now_h=6, left_h=5, available="a", running=ON_DEMAND)
    assert choose_machine(job(restart_h=0.2), at, flapping).choice == ON_DEMAND


def test_on_demand_is_left_for_a_zone_that_has_lasted() -> None:
    at = moment(now_h=5, left_h=5, available="a", running=ON_DEMAND)
    assert choose_machine(job(), at, weather(*["a"] * 30)).choice == MachineChoice("spot", "a")


def test_a_machine_that_has_just_come_is_left_to_prove_itself() -> None:
    """On-demand runs meanwhile, so that a tick of patience costs less than a start that comes to nothing."""
    asked = job(restart_h=0.2, zones="a")
    at = moment(now_h=2, left_h=9, available="a", running=ON_DEMAND)
    new = weather("a", "", "a", "", "a", zones="a")
    assert choose_machine(asked, at, new).choice == ON_DEMAND
    for _ in range(30):
        new = new.observe("a")
    assert choose_machine(asked, at, new).choice == MachineChoice("spot", "a")


def test_a_short_gap_is_waited_out_where_a_long_one_is_not() -> None:
    asked, at = job(restart_h=0.2, zones="a", deadline_h=13), moment(now_h=0.5, left_h=10)
    blinks = weather(*["a", "a", "a", ""] * 12, zones="a")
    assert choose_machine(asked, at, blinks).choice == WAIT
    for _ in range(3):
        blinks = blinks.observe("")
    assert choose_machine(asked, at, blinks).choice == ON_DEMAND


def test_a_zone_dearer_than_on_demand_is_never_taken() -> None:
    found = choose_machine(job(spot=3.5), moment(available="a"), weather(*["a"] * 30))
    assert found.choice != MachineChoice("spot", "a")


def test_of_two_zones_that_last_alike_the_cheaper_is_taken() -> None:
    asked = SpotJob(
        work_s=10 * HOUR_S,
        deadline_s=20 * HOUR_S,
        restart_s=300,
        on_demand_usd_per_hour=3.0,
        spot_usd_per_hour={"a": 1.5, "b": 1.0},
    )
    assert choose_machine(
        asked, moment(available="ab"), weather("ab", "ab", zones="ab")
    ).choice == MachineChoice("spot", "b")


def test_spot_is_left_for_on_demand_when_a_lost_machine_might_go_unnoticed_too_long() -> None:
    at = moment(now_h=1.8, left_h=10, available="a", running=MachineChoice("spot", "a"))
    assert choose_machine(job(), at, weather("a")).choice == MachineChoice("spot", "a")
    assert choose_machine(job(blind_s=TICK_S), at, weather("a")).choice == ON_DEMAND


def test_a_job_with_hardly_anything_left_takes_the_spot_there_is() -> None:
    """Its restart is paid for wherever it goes on, and on-demand is where it would end if it waited."""
    calm = weather(*["a"] * 30, zones="a")
    said = choose_machine(job(zones="a"), moment(now_h=1, left_h=0.001, available="a"), calm)
    assert said.choice == MachineChoice("spot", "a")
