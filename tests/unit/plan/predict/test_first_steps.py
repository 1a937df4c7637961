"""A forecast from the first steps, on runs whose whole time is known."""

import random
from itertools import accumulate
from typing import Any

from anygpu.plan.offers.bill import Span
from anygpu.plan.predict.first_steps import StepForecast, StepTimes, combine_estimates, forecast_duration


def run(
    chance: random.Random, *, steps: int, per_epoch: int, step_s: float, noise: float, pause_s: float
) -> list[float]:
    """When each step was completed; the last entry is the end, with its last evaluation."""
    gaps = []
    for step in range(1, steps + 1):
        slow = 4 if step <= 2 else 1  # compiling, filling caches
        after_epoch = pause_s if step > 1 and (step - 1) % per_epoch == 0 else 0.0
        gaps.append(step_s * slow * chance.lognormvariate(0, noise) + after_epoch)
    return [*accumulate([*gaps, pause_s])]


def told(times: list[float], seen: int, per_epoch: int, **known: Any) -> StepForecast:
    found = forecast_duration(
        StepTimes(times_s=times[:seen], total_steps=len(times) - 1, steps_per_epoch=per_epoch, **known)
    )
    assert found is not None
    return found


def test_after_fifteen_steps_nineteen_runs_in_twenty_are_forecast_within_fifteen_percent() -> None:
    chance = random.Random(7)
    good = covered = 0
    for _ in range(400):
        per_epoch = chance.randrange(20, 200)
        pause_s = chance.uniform(0, 0.3) * per_epoch
        times = run(
            chance,
            steps=per_epoch * chance.randrange(3, 30),
            per_epoch=per_epoch,
            step_s=chance.uniform(0.05, 2),
            noise=chance.uniform(0, 0.3),
            pause_s=pause_s,
        )
        found = told(times, 15 + 3, per_epoch, known_pause_s=pause_s)
        good += abs(found.total_s - times[-1]) <= 0.15 * times[-1]
        covered += found.low_s <= times[-1] <= found.high_s
    assert good >= 0.95 * 400
    assert covered >= 0.90 * 400


def test_a_pause_that_was_seen_is_counted_for_every_epoch_to_come() -> None:
    times = run(random.Random(1), steps=100, per_epoch=10, step_s=1, noise=0, pause_s=20)
    found = told(times, 25, 10)
    assert (found.pauses, round(found.pause_s)) == (8, 20)
    assert abs(found.total_s - times[-1]) < 0.01 * times[-1]


def test_a_run_that_goes_on_beyond_its_steps_has_nothing_more_to_come() -> None:
    """Pauses without a rhythm, the last of them a moment ago."""
    gaps = [5.0 if step in (7, 12, 26, 37) else 1.0 for step in range(40)]
    found = forecast_duration(StepTimes(times_s=[*accumulate(gaps)], total_steps=20))
    assert found is not None
    assert (found.total_s, found.pauses) == (sum(gaps), 0)
    assert found.low_s <= found.total_s <= found.high_s


def test_pauses_are_found_by_their_rhythm_when_nobody_says_where_epochs_end() -> None:
    times = run(random.Random(2), steps=100, per_epoch=10, step_s=1, noise=0.05, pause_s=20)
    found = forecast_duration(StepTimes(times_s=times[:45], total_steps=100))
    assert found is not None
    assert abs(found.total_s - times[-1]) < 0.05 * times[-1]


def test_the_interval_is_wide_while_little_is_known_and_narrow_later() -> None:
    times = run(random.Random(3), steps=1000, per_epoch=1000, step_s=1, noise=0.2, pause_s=0)
    early, late = told(times, 5, 1000), told(times, 900, 1000)
    assert early.high_s - early.low_s > 4 * (late.high_s - late.low_s)


def test_nothing_is_said_of_a_run_that_has_told_nothing() -> None:
    assert forecast_duration(StepTimes(times_s=[], total_steps=10)) is None
    assert forecast_duration(StepTimes(times_s=[1.0], total_steps=10)) is None


def test_a_finished_run_has_nothing_left() -> None:
    times = run(random.Random(4), steps=50, per_epoch=50, step_s=1, noise=0.1, pause_s=0)
    found = told(times, 50, 50)
    assert found.remaining_s(times[-1]) == 0


def test_before_an_evaluation_was_seen_a_usual_one_is_expected_and_all_of_it_doubted() -> None:
    times = [float(step) for step in range(1, 16)]
    found = forecast_duration(StepTimes(times_s=times, total_steps=400, steps_per_epoch=100))
    plain = forecast_duration(StepTimes(times_s=times, total_steps=400))
    assert found is not None
    assert plain is not None
    assert plain.total_s == 400
    assert 400 < found.total_s < 440
    assert found.low_s < 400 < 450 < found.high_s


def test_an_epoch_that_ends_without_a_pause_is_taken_at_its_word() -> None:
    times = [float(step) for step in range(1, 31)]
    found = forecast_duration(StepTimes(times_s=times, total_steps=400, steps_per_epoch=20))
    assert found is not None
    assert found.total_s == 400


def whole(gaps: list[float], *, seen: int = 15, per_epoch: int | None = None) -> tuple[float, float]:
    """What is forecast of a run, and what it took."""
    times = [*accumulate(gaps)]
    found = forecast_duration(
        StepTimes(times_s=times[:seen], total_steps=len(gaps), steps_per_epoch=per_epoch)
    )
    assert found is not None
    return found.total_s, times[-1]


def test_a_pace_that_changed_counts_from_there_on() -> None:
    quick_at_first = [0.4] * 8 + [1.0] * 192
    slow_at_first = [3.0, 3.0, 3.0, 2.5, 2.0, 1.8, 1.6, 1.4] + [1.0] * 192
    for gaps in (quick_at_first, slow_at_first):
        said, took = whole(gaps)
        assert abs(said - took) < 0.01 * took


def test_a_pause_seen_once_after_a_round_number_of_steps_comes_again_after_as_many() -> None:
    gaps = [1.0 + (30 if step and step % 10 == 0 else 0) for step in range(100)]
    said, took = whole(gaps)
    assert abs(said - took) <= 31


def test_a_pause_seen_once_after_any_other_number_may_come_again_but_is_not_expected_to() -> None:
    times = [*accumulate([1.0] * 12 + [9.0] + [1.0] * 87)]
    found = forecast_duration(StepTimes(times_s=times[:15], total_steps=100))
    assert found is not None
    assert found.total_s == times[-1]
    assert found.high_s > times[-1] + 5 * 8


def test_a_pause_that_would_have_come_again_by_now_was_the_only_one() -> None:
    said, took = whole([1.0] * 5 + [30.0] + [1.0] * 94)
    assert said == took


def test_where_every_step_is_an_epoch_the_longer_ones_are_counted_by_their_rhythm() -> None:
    gaps = [9.0 if epoch % 5 == 4 else 1.0 for epoch in range(100)]
    said, took = whole(gaps, per_epoch=1)
    assert abs(said - took) < 0.05 * took


def test_a_first_evaluation_that_warms_up_is_not_typical() -> None:
    ends = {4: 50.0, 8: 3.0, 12: 3.0}
    gaps = [1.0 + ends.get(step, 3.0 if step and step % 4 == 0 else 0.0) for step in range(200)]
    said, took = whole(gaps, per_epoch=4)
    assert abs(said - took) < 0.05 * took


def test_steps_that_are_reported_together_are_not_taken_for_steps_in_no_time() -> None:
    times = [4.0 * (1 + at // 4) for at in range(200)]
    found = forecast_duration(StepTimes(times_s=times[:15], total_steps=200))
    assert found is not None
    assert abs(found.total_s - times[-1]) < 0.05 * times[-1]


def test_rounds_that_grow_take_longer_than_the_first_ones_say() -> None:
    gaps = [1 + 0.01 * step for step in range(200)]
    seen = [*accumulate(gaps)]
    grown = forecast_duration(
        StepTimes(times_s=seen[:15], total_steps=200, steps_per_epoch=1, steps_grow=True)
    )
    level = forecast_duration(StepTimes(times_s=seen[:15], total_steps=200, steps_per_epoch=1))
    assert grown is not None
    assert level is not None
    assert level.total_s < 0.7 * seen[-1]
    assert abs(grown.total_s - seen[-1]) < 0.1 * seen[-1]


def test_two_words_on_one_thing_meet_between_them_nearer_to_the_surer() -> None:
    sure, vague = Span(expected=100, low=95, high=105), Span(expected=120, low=80, high=180)
    both = combine_estimates(vague, sure)
    assert 100 < both.expected < 105
    assert both.low < 100 < both.high
    assert both.high / both.low < sure.high / sure.low


def test_where_past_runs_contradict_the_run_wins() -> None:
    own, before = Span(expected=100, low=90, high=111), Span(expected=1000, low=900, high=1111)
    assert combine_estimates(own, before).expected < 115
