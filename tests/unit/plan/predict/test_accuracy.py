"""Predicted against actual, in figures."""

import pytest

from anygpu.events.facts import Prediction
from anygpu.plan.predict.accuracy import JudgedPrediction, accuracy_by_basis, interval_score, measure_accuracy


def judged(said: float, truth: float, *, basis: str = "history", cost: int = 0) -> JudgedPrediction:
    prediction = Prediction(
        wall_s=said,
        wall_low_s=0.8 * said,
        wall_high_s=1.25 * said,
        cost_microusd=100,
        cost_low_microusd=80,
        cost_high_microusd=125,
        basis=basis,
    )
    return JudgedPrediction(prediction=prediction, wall_s=truth, cost_microusd=cost)


def test_errors_are_shares_of_the_truth_and_intervals_are_counted() -> None:
    found = measure_accuracy([judged(100, 100), judged(110, 100), judged(200, 100)])
    assert found.time is not None
    assert found.time.median_error == pytest.approx(0.1)
    assert found.time.p90_error == pytest.approx(1.0)
    assert (found.time.jobs, found.time.held) == (3, 2)
    assert found.time.median_width == pytest.approx(1.5625)


def test_what_cost_nothing_is_not_judged_by_its_cost() -> None:
    found = measure_accuracy([judged(1, 1), judged(1, 1, cost=110)])
    assert found.cost is not None
    assert found.cost.jobs == 1
    assert found.cost.median_error == pytest.approx(10 / 110)
    assert measure_accuracy([judged(1, 1)]).cost is None
    assert measure_accuracy([]).time is None


def test_each_basis_is_judged_by_itself() -> None:
    found = accuracy_by_basis([judged(1, 1), judged(1, 1, basis="code"), judged(2, 1, basis="code")])
    assert {basis: each.jobs for basis, each in found.items()} == {"code": 2, "history": 1}


def test_a_wide_interval_scores_worse_than_a_narrow_one_that_holds_and_better_than_one_that_misses() -> None:
    narrow, wide, missed = (
        interval_score(90, 110, 100),
        interval_score(10, 1000, 100),
        interval_score(10, 20, 100),
    )
    assert narrow < wide < missed
