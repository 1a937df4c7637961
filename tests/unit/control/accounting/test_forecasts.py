"""What the first steps of a running job tell of the whole of it, when that is written, and how often."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.control.jobs_in_states import lost, recovering, training, view

from anygpu.control.accounting.forecasts import MAX_RECORDED, Forecasts, has_changed, read_steps, step_s
from anygpu.control.accounting.forecasts import predict as prediction
from anygpu.events.facts import FIRST_STEPS, Prediction
from anygpu.events.types import Event, JobPlanned, JobSubmitted
from anygpu.plan.predict.first_steps import StepTimes
from anygpu.spec.load import from_mapping
from anygpu.store.reports import MetricPoint, ReportBatch
from anygpu.store.scope import SYSTEM, Scope
from anygpu.testing.memory.journal import MemoryJournal
from anygpu.testing.memory.reports import MemoryReports
from anygpu.testing.simulation.virtual_time import VirtualClock, VirtualLoop, run

LAB = Scope(organisation="lab", project="p")
STEPS = {"step": 20, "steps": 100, "epochs": 4}


def points(count: int, *, every: int = 1, gap_s: float = 2.0, first: int = 1) -> list[MetricPoint]:
    steps = range(first, first + count * every, every)
    return [MetricPoint("loss", step, 5000.0 + (step - 1) * gap_s, 0.5) for step in steps]


def test_points_become_the_times_of_steps() -> None:
    found = read_steps(points(20), STEPS)
    assert found is not None
    assert found.times_s == [2.0 * n for n in range(20)]
    assert (found.first_step, found.total_steps, found.steps_per_epoch) == (1, 100, 25)


def test_a_run_that_reports_every_tenth_step_is_counted_in_tens() -> None:
    found = read_steps(points(20, every=10, first=10), {"step": 200, "steps": 1000})
    assert found is not None
    assert (found.first_step, found.total_steps) == (1, 100)
    assert found.times_s[:3] == [0.0, 20.0, 40.0]


def test_the_steps_of_a_run_that_counts_only_epochs_are_its_epochs() -> None:
    found = read_steps(points(20), {"epoch": 20, "epochs": 100})
    assert found is not None
    assert found.times_s == [2.0 * n for n in range(20)]
    assert (found.first_step, found.total_steps, found.steps_per_epoch) == (1, 100, None)


def test_steps_that_were_not_told_are_filled_in() -> None:
    seen = [each for each in points(20) if each.step not in (7, 8)]
    found = read_steps(seen, STEPS)
    assert found is not None
    assert found.times_s == pytest.approx([2.0 * n for n in range(20)])


@pytest.mark.parametrize(
    ("seen", "progress"),
    [
        (points(20), {"step": 20}),
        (points(20), {"step": 3, "steps": 100}),  # its metrics are counted in something else
        (points(20), {"epoch": 2, "epochs": 100}),  # its metrics are counted in steps
        (points(20, every=10, first=10), {"epoch": 200, "epochs": 1000}),
        (points(1), STEPS),
        ([], STEPS),
        (points(20), {"step": True, "steps": "many"}),
    ],
)
def test_what_cannot_be_counted_in_steps_tells_nothing(
    seen: Sequence[MetricPoint], progress: dict[str, Any]
) -> None:
    assert read_steps(seen, progress) is None


@pytest.mark.parametrize("at", [float("inf"), float("nan"), -float("inf"), -1.0, 1e308])
def test_a_clock_without_sense_gives_no_step_times(at: float) -> None:
    assert read_steps([MetricPoint("loss", step, at, 0.5) for step in range(1, 21)], STEPS) is None
    mixed = [*points(20), MetricPoint("loss", 21, at, 0.5)]
    assert read_steps(mixed, STEPS) == read_steps(points(20), STEPS)


def test_a_run_of_more_steps_than_a_lifetime_has_seconds_is_not_predicted() -> None:
    found = read_steps(points(20), {"step": 20, "steps": 2**52})
    assert found is not None
    running = view(*training())
    assert prediction(running, running.attempts[-1], found, 10_000) is None


def test_the_usual_time_of_a_step_is_the_middle_one() -> None:
    assert step_s([*points(10), MetricPoint("loss", 11, 9000.0, 0.1)]) == 2.0
    assert step_s(points(2)) is None


def steady(done: int = 20, steps: int = 100, gap_s: float = 60.0) -> StepTimes:
    return StepTimes(times_s=[gap_s * n for n in range(1, done + 1)], total_steps=steps)


def test_the_whole_job_is_what_is_gone_and_what_is_left_by_its_price() -> None:
    running = view(*training())
    began_ms = running.attempts[0].launching_at_ms
    found = prediction(running, running.attempts[0], steady(), began_ms + 1_300_000)
    assert found is not None
    assert found.wall_s == pytest.approx(1300 + 80 * 60 + 30, rel=0.01)
    assert found.wall_low_s < found.wall_s < found.wall_high_s
    assert found.cost_microusd == pytest.approx(1000 * found.wall_s, rel=0.01)
    assert found.cost_low_microusd < found.cost_microusd < found.cost_high_microusd
    assert found.basis == "first steps"


def test_past_runs_go_on_counting_beside_the_first_steps() -> None:
    said = Prediction(
        wall_s=4000,
        wall_low_s=3500,
        wall_high_s=4600,
        cost_microusd=1,
        cost_low_microusd=1,
        cost_high_microusd=1,
        basis="history",
    )
    running = view(*training())
    known = replace(running, predicted=said)
    now_ms = running.attempts[0].launching_at_ms + 1_300_000
    alone, both = (prediction(each, each.attempts[0], steady(), now_ms) for each in (running, known))
    assert alone is not None
    assert both is not None
    assert said.wall_s < both.wall_s < alone.wall_s


def test_rounds_that_ask_all_trees_before_them_are_expected_to_grow() -> None:
    running = view(*training())
    now_ms = running.attempts[0].launching_at_ms + 1_300_000
    uneven = StepTimes(times_s=[60.0 * n + 6.0 * (n % 2) for n in range(1, 21)], total_steps=500)

    def told_of(model: str) -> float:
        asked = {"trainer": "tabular", "dataset": "t.csv", "config": {"target": "y", "model": model}}
        asked_for = replace(running, spec=from_mapping(asked))
        found = prediction(asked_for, running.attempts[0], uneven, now_ms)
        assert found is not None
        return found.wall_s

    assert told_of("hist-gradient-boosting") > 1.05 * told_of("random-forest")


def test_a_few_steps_are_too_few() -> None:
    running = view(*training())
    assert prediction(running, running.attempts[0], steady(done=8), 1_000_000) is None


def test_only_what_left_the_last_interval_is_worth_telling() -> None:
    running = view(*training())
    found = prediction(running, running.attempts[0], steady(), 1_300_000)
    assert found is not None
    assert has_changed(None, found)
    assert has_changed(replace(found, basis="history"), found)
    assert not has_changed(found, replace(found, wall_s=found.wall_s * 1.01))
    assert has_changed(found, replace(found, wall_s=found.wall_high_s + 1))


def told(
    *windows: tuple[dict[str, Any], list[MetricPoint]], pause_s: float = 700, attempt: int = 1
) -> list[Prediction | None]:
    """What is in the journal after each of these reports has been looked at; before the last attempt it was told."""

    async def story(loop: VirtualLoop) -> list[Prediction | None]:
        clock, journal, evidence = VirtualClock(loop), MemoryJournal(now_s=loop.time), MemoryReports()
        await journal.submit(
            LAB, "job", JobSubmitted(spec=from_mapping({"script": "t.py"})), at_ms=clock.wall_ms()
        )
        events = [*training(), *(again() if attempt == 2 else ())]
        written = await journal.transact(SYSTEM, "job", lambda _: events, at_ms=clock.wall_ms())
        guard = await journal.acquire("control", "me", ttl_s=10**9)
        assert guard is not None
        forecasts = Forecasts(journal, evidence, clock)
        forecasts.update(written.view)
        for seq, (progress, seen) in enumerate(windows, 1):
            batch = ReportBatch(first=seq, last=seq, points=[(seq, seen)], progress=progress)
            await evidence.ingest("job", attempt, batch, at_ms=clock.wall_ms())
            await asyncio.sleep(pause_s)
            await forecasts.run(guard)
        events = [recorded.event for recorded in await journal.events(LAB, after=0, limit=999)]
        return [event.prediction for event in events if isinstance(event, JobPlanned)]

    return run(story)


def test_a_job_that_says_no_steps_is_never_predicted() -> None:
    assert told(({"epoch": 1}, points(50)), ({"fraction": 0.5}, points(50))) == []


def test_a_job_that_counts_only_epochs_is_predicted() -> None:
    assert len(told(({"epoch": 20, "epochs": 100}, points(20, gap_s=700 / 20)))) == 1


def test_the_first_steps_are_told_once_and_again_only_when_the_run_goes_otherwise() -> None:
    steady_run = [({"step": 20, "steps": 1000}, points(20, gap_s=700 / 20))]
    goes_on = [({"step": 40, "steps": 1000}, points(20, gap_s=700 / 20, first=21))]
    slower = [({"step": 60, "steps": 1000}, points(500, gap_s=300, first=61))]
    assert len(told(*steady_run)) == 1
    assert len(told(*steady_run, *goes_on)) == 1
    assert len(told(*steady_run, *goes_on, *slower)) <= 2


def again() -> list[Event]:
    """The first attempt told that it takes ten to twenty hours, and was lost; the second trains."""
    wide = Prediction(
        wall_s=54_000,
        wall_low_s=30_000,
        wall_high_s=80_000,
        cost_microusd=0,
        cost_low_microusd=0,
        cost_high_microusd=10**9,
        basis=FIRST_STEPS,
    )
    return [JobPlanned(prediction=wide), lost(), recovering(), *training(2)]


def test_each_attempt_tells_its_own_pace_even_if_that_is_what_was_said_before() -> None:
    first, second = told(({"step": 20, "steps": 1000}, points(20, gap_s=50)), attempt=2)
    assert first is not None
    assert second is not None
    assert first.wall_low_s < second.wall_s < first.wall_high_s


def test_a_run_that_changes_all_the_time_is_told_a_bounded_number_of_times() -> None:
    windows = [
        ({"step": 20 * n, "steps": 10**6}, points(20, gap_s=10.0**n, first=20 * (n - 1) + 1))
        for n in range(1, 30)
    ]
    found = told(*windows)
    assert 1 < len(found) <= MAX_RECORDED
