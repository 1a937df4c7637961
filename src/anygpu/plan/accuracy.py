"""How good predictions were: what was said beside what happened. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import log
from statistics import median

from anygpu.events.facts import Prediction

TARGET = 0.9  # of the intervals are to hold the truth


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One prediction, and what the job took and cost."""

    said: Prediction
    wall_s: float
    cost_microusd: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Errors:
    """Of one quantity. Shares of the truth; `width` is the high end of an interval over its low end."""

    jobs: int
    median_error: float
    p90_error: float
    held: int  # intervals that held the truth
    median_width: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """None where there is nothing to judge: no job, or none that cost something."""

    jobs: int
    time: Errors | None
    cost: Errors | None


def accuracy(judged: Sequence[Judged]) -> Accuracy:
    times = [
        (each.said.wall_s, each.said.wall_low_s, each.said.wall_high_s, each.wall_s)
        for each in judged
        if each.wall_s > 0
    ]
    costs = [
        (
            float(each.said.cost_microusd),
            float(each.said.cost_low_microusd),
            float(each.said.cost_high_microusd),
            float(each.cost_microusd),
        )
        for each in judged
        if each.cost_microusd > 0
    ]
    return Accuracy(jobs=len(judged), time=errors(times), cost=errors(costs))


def by_basis(judged: Iterable[Judged]) -> dict[str, Accuracy]:
    groups: dict[str, list[Judged]] = {}
    for each in judged:
        groups.setdefault(each.said.basis, []).append(each)
    return {basis: accuracy(group) for basis, group in sorted(groups.items())}


def errors(found: Sequence[tuple[float, float, float, float]]) -> Errors | None:
    """Of (expected, low, high, truth), the truth above zero."""
    if not found:
        return None
    sizes = sorted(abs(said - truth) / truth for said, _, _, truth in found)
    return Errors(
        jobs=len(found),
        median_error=median(sizes),
        p90_error=sizes[min(len(sizes) - 1, -(-len(sizes) * 9 // 10) - 1)],
        held=sum(low <= truth <= high for _, low, high, truth in found),
        median_width=median(high / max(low, 1e-9) for _, low, high, _ in found),
    )


def width_score(low: float, high: float, truth: float) -> float:
    """An interval's score (Gneiting and Raftery 2007, on logarithms): its width, and ten times twice what it missed by.

    Lower is better: neither a wide interval that holds everything nor a narrow one that holds nothing is good.
    """
    low, high, truth = log(max(low, 1e-9)), log(max(high, 1e-9)), log(truth)
    missed = max(0.0, low - truth) + max(0.0, truth - high)
    return high - low + 2 / (1 - TARGET) * missed
