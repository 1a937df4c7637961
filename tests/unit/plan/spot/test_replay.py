"""Replays, traces, and the least a job could have cost."""

import json
import random
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path

import pytest
from bench.spot_optimum import Optimum

from anygpu.errors import BadTrace
from anygpu.plan.spot.availability import SpotAvailability
from anygpu.plan.spot.policy import ON_DEMAND, WAIT, MachineChoice, SpotDecision, SpotJob, TickState
from anygpu.plan.spot.replay import (
    POLICIES,
    SYNTHETIC_ZONES,
    SpotTrace,
    greedy,
    on_demand_only,
    read_trace,
    read_traces,
    replay,
    sample_windows,
    synthetic_trace,
    uniform_progress,
)

HOUR_S, TICK_S = 3600.0, 600.0


def job(
    zones: Iterable[str] = "a", *, work_h: float = 2, deadline_h: float = 4, restart_s: float = 300
) -> SpotJob:
    return SpotJob(
        work_s=work_h * HOUR_S,
        deadline_s=deadline_h * HOUR_S,
        restart_s=restart_s,
        on_demand_usd_per_hour=3.0,
        spot_usd_per_hour=dict.fromkeys(zones, 1.0),
    )


def test_on_demand_costs_the_work_and_one_restart() -> None:
    found = replay(job(), {"a": [1] * 24}, TICK_S, on_demand_only)
    assert found.cost_usd == pytest.approx(3.0 * (2 + 300 / 3600))
    assert (found.restarts, found.late) == (1, False)


def test_spot_that_is_always_there_costs_the_spot_price() -> None:
    for policy in (greedy, uniform_progress, POLICIES["anygpu"]):
        assert replay(job(), {"a": [1] * 24}, TICK_S, policy).cost_usd == pytest.approx(2 + 300 / 3600)


def test_a_machine_taken_back_costs_another_restart() -> None:
    found = replay(job(), {"a": [1, 1, 1, 0] + [1] * 20}, TICK_S, greedy)
    assert found.restarts == 2
    assert found.cost_usd == pytest.approx(2 + 2 * 300 / 3600)
    assert found.finished_s == 2 * HOUR_S + 2 * 300 + TICK_S


def test_greedy_goes_to_on_demand_when_the_time_is_used_up() -> None:
    found = replay(job(), {"a": [0] * 24}, TICK_S, greedy)
    assert not found.late
    assert found.finished_s == pytest.approx(4 * HOUR_S, abs=TICK_S)


def test_a_job_that_cannot_be_on_time_is_told_to_be_late() -> None:
    assert replay(job(deadline_h=1), {"a": [0] * 6}, TICK_S, POLICIES["anygpu"]).late


@pytest.mark.parametrize("restart_s", [0, 120, 300, 720])
def test_nothing_is_cheaper_than_the_optimum(restart_s: float) -> None:
    chance = random.Random(restart_s)
    asked = job("ab", work_h=4, deadline_h=6, restart_s=restart_s)
    for _ in range(5):
        record = {zone: [int(chance.random() < 0.6) for _ in range(36)] for zone in "ab"}
        least = Optimum(asked, "ab", TICK_S).cost_usd(record, 36)
        costs = [replay(asked, record, TICK_S, policy).cost_usd for policy in POLICIES.values()]
        assert min(costs) >= least - 1e-6
        assert least >= 4.0 - 1e-6


def _played(asked: SpotJob, record: Mapping[str, Sequence[int]], moves: Sequence[MachineChoice]) -> float:
    """What these moves cost; too much to matter when one is not possible or the job is late."""
    possible = True

    def policy(job: SpotJob, at: TickState, availability: SpotAvailability) -> SpotDecision:
        nonlocal possible
        where = moves[round(at.now_s / TICK_S)]
        possible &= where.kind != "spot" or where.zone in at.available
        return SpotDecision(where, "as told")

    outcome = replay(asked, record, TICK_S, policy)
    return outcome.cost_usd if possible and not outcome.late else float("inf")


@pytest.mark.parametrize("restart_s", [0, 72, 360, 720])
def test_the_optimum_is_the_cheapest_of_all_moves_the_replay_allows(restart_s: float) -> None:
    """Both know the same world: nothing is allowed to the one that is not allowed to the other."""
    chance = random.Random(restart_s)
    candidates = [WAIT, ON_DEMAND, MachineChoice("spot", "a"), MachineChoice("spot", "b")]
    asked = job("ab", work_h=1 / 3, deadline_h=5 / 6, restart_s=restart_s)
    for _ in range(3):
        record = {zone: [int(chance.random() < 0.6) for _ in range(5)] for zone in "ab"}
        least = min(_played(asked, record, moves) for moves in product(candidates, repeat=5))
        assert Optimum(asked, "ab", TICK_S).cost_usd(record, 5) == pytest.approx(least)


def test_the_optimum_waits_for_spot_it_knows_will_come() -> None:
    record = [0] * 10 + [1] * 14
    assert Optimum(job(), "a", TICK_S).cost_usd({"a": record}, 24) == pytest.approx(2 + 300 / 3600)


def test_on_made_up_zones_ours_costs_no_more_than_uniform_progress() -> None:
    traces = [synthetic_trace(kind, 5, ticks=600) for kind in SYNTHETIC_ZONES]
    sums = dict.fromkeys(("uniform-progress", "anygpu"), 0.0)
    for restart_s in (72, 720):
        for window in sample_windows(traces, zones=1, length_s=52 * HOUR_S, count=10, seed=1):
            asked = job(window.available, work_h=48, deadline_h=52, restart_s=restart_s)
            for name in sums:
                sums[name] += replay(asked, window.available, TICK_S, POLICIES[name]).cost_usd
    assert sums["anygpu"] < 0.95 * sums["uniform-progress"]


def test_a_trace_is_read_with_its_ticks(tmp_path: Path) -> None:
    path = tmp_path / "zone-a.json"
    path.write_text(json.dumps({"metadata": {"gap_seconds": 300}, "data": [1, 0, 1]}))
    assert read_traces(tmp_path) == [SpotTrace("zone-a", 300.0, [1, 0, 1])]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"data": [1]}',
        '{"metadata": {"gap_seconds": 600}, "data": [2]}',
        '{"metadata": {"gap_seconds": 0}, "data": [1]}',
    ],
)
def test_what_is_no_trace_is_named_with_its_file(text: str, tmp_path: Path) -> None:
    path = tmp_path / "zone.json"
    path.write_text(text)
    with pytest.raises(BadTrace, match=r"zone\.json"):
        read_trace(path)


def test_windows_are_the_same_for_the_same_seed_and_never_mix_ticks() -> None:
    traces = [synthetic_trace("bursty", n, ticks=100) for n in range(3)]
    traces.append(synthetic_trace("scarce", 1, ticks=200, tick_s=300.0))
    first = list(sample_windows(traces, zones=3, length_s=6000, count=5, seed=3))
    assert first == list(sample_windows(traces, zones=3, length_s=6000, count=5, seed=3))
    assert {window.tick_s for window in first} == {600.0}
    assert all(len(seen) == 10 for window in first for seen in window.available.values())


def test_windows_longer_than_every_trace_are_refused() -> None:
    with pytest.raises(BadTrace, match="with the same gap_seconds"):
        next(sample_windows([synthetic_trace("bursty", 1, ticks=5)], zones=1, length_s=6000, count=1, seed=0))
