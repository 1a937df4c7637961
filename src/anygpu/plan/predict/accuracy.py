"""Measure how accurate past predictions of time and cost were. Pure functions."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import log
from statistics import median

from anygpu.events.facts import Prediction

TARGET_COVERAGE = 0.9  # share of the intervals that should contain the actual value


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedPrediction:
    """A prediction, together with the time and cost that the job really had."""

    prediction: Prediction
    wall_s: float
    cost_microusd: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionErrors:
    """Errors of one predicted quantity, relative to the actual values.

    `median_width` is the median ratio of an interval's upper end to its lower end.
    """

    jobs: int
    median_error: float
    p90_error: float
    held: int  # intervals that contained the actual value; the name is part of the API
    median_width: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionAccuracy:
    """Errors of predicted times and of predicted costs; None without data."""

    jobs: int
    time: PredictionErrors | None
    cost: PredictionErrors | None


def measure_accuracy(judged: Sequence[JudgedPrediction]) -> PredictionAccuracy:
    times = [
        (each.prediction.wall_s, each.prediction.wall_low_s, each.prediction.wall_high_s, each.wall_s)
        for each in judged
        if each.wall_s > 0
    ]
    costs = [
        (
            float(each.prediction.cost_microusd),
            float(each.prediction.cost_low_microusd),
            float(each.prediction.cost_high_microusd),
            float(each.cost_microusd),
        )
        for each in judged
        if each.cost_microusd > 0
    ]
    return PredictionAccuracy(jobs=len(judged), time=measure_errors(times), cost=measure_errors(costs))


def accuracy_by_basis(judged: Iterable[JudgedPrediction]) -> dict[str, PredictionAccuracy]:
    groups: dict[str, list[JudgedPrediction]] = {}
    for each in judged:
        groups.setdefault(each.prediction.basis, []).append(each)
    return {basis: measure_accuracy(group) for basis, group in sorted(groups.items())}


def measure_errors(cases: Sequence[tuple[float, float, float, float]]) -> PredictionErrors | None:
    """Return the errors of predictions, given as (expected, low, high, actual); None if there are none.

    Actual values must be positive.
    """
    if not cases:
        return None
    sizes = sorted(abs(said - truth) / truth for said, _, _, truth in cases)
    return PredictionErrors(
        jobs=len(cases),
        median_error=median(sizes),
        p90_error=sizes[min(len(sizes) - 1, -(-len(sizes) * 9 // 10) - 1)],
        held=sum(low <= truth <= high for _, low, high, truth in cases),
        median_width=median(high / max(low, 1e-9) for _, low, high, _ in cases),
    )


def interval_score(low: float, high: float, truth: float) -> float:
    """Return the interval score (Gneiting and Raftery 2007) of a predicted interval; lower is better.

    The score is the width of the interval plus twenty times its distance from the actual value `truth`, both
    measured on logarithms. So a very wide interval scores badly, and so does one that misses the value.
    """
    low, high, truth = log(max(low, 1e-9)), log(max(high, 1e-9)), log(truth)
    missed = max(0.0, low - truth) + max(0.0, truth - high)
    return high - low + 2 / (1 - TARGET_COVERAGE) * missed
