"""What an attempt's reports tell of its steps: when each was done. Pure; agents' clocks are data, never decisions."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from operator import itemgetter
from statistics import median
from typing import Any

from anygpu.plan.predict.first_steps import StepTimes
from anygpu.store.evidence import Point

MOST_STEPS = 2_000  # of a window; a run that reports more often is thinned


def reported(points: Iterable[Point], progress: Mapping[str, Any]) -> StepTimes | None:
    """None while the run has not said how many steps it has, or its metrics are not counted in steps."""
    steps, done = _count(progress.get("steps")), _count(progress.get("step"))
    seen = _first_times(points)
    if not steps or not done or len(seen) < 2:
        return None
    stride = _stride([step for step, _ in seen])
    first, last = seen[0][0], seen[-1][0]
    if not 0 < last <= done + stride or (last - first) // stride < 1:
        return None
    units = range(first // stride, last // stride + 1)
    epochs = _count(progress.get("epochs"))
    return StepTimes(
        times_s=[_when(seen, unit * stride) - seen[0][1] for unit in units],
        first_step=max(1, units[0]),
        total_steps=-(-steps // stride),
        steps_per_epoch=steps // epochs // stride or None if epochs else None,
    )


def step_s(points: Iterable[Point]) -> float | None:
    """The usual seconds of one step; None where too few were reported."""
    seen = _first_times(points)
    each = [(later[1] - one[1]) / (later[0] - one[0]) for one, later in pairwise(seen)]
    return median(each) if len(each) >= 2 and median(each) > 0 else None


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _first_times(points: Iterable[Point]) -> list[tuple[int, float]]:
    """When each step was first told of, in the order of steps, for as long as time goes forward with them."""
    first: dict[int, float] = {}
    for point in points:
        first.setdefault(point.step, point.at)
    ordered: list[tuple[int, float]] = []
    for step, at in sorted(first.items()):
        if not ordered or at >= ordered[-1][1]:
            ordered.append((step, at))
    return ordered


def _stride(steps: Sequence[int]) -> int:
    """After how many steps the run reports, or so many that a window is not too many to look at."""
    usual = round(median(later - one for one, later in pairwise(steps)))
    return max(1, usual, (steps[-1] - steps[0]) // MOST_STEPS)


def _when(seen: Sequence[tuple[int, float]], step: int) -> float:
    """By a straight line between the reports around it."""
    at = bisect_left(seen, step, key=itemgetter(0))
    after = seen[min(at, len(seen) - 1)]
    before = after if after[0] <= step or at == 0 else seen[at - 1]
    if after[0] == before[0]:
        return before[1]
    return before[1] + (after[1] - before[1]) * (step - before[0]) / (after[0] - before[0])
