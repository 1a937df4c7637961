"""How long will it still take? From the first steps of a training that runs; pure arithmetic over what was reported.

The time of a training is steps, and what stands between steps: evaluations, checkpoints, the change of an epoch. Steps
are many and alike, so a few of them tell; pauses are few and long, so each kind is counted and priced by itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median

WARM_UP = 3  # compilation, caches, first pages of data: never taken as typical
CLEAR = 4.0  # a gap this many times the median step is a pause, not a slow step
SURE_STEPS = 15  # from here on an estimate rests on the run itself
DRIFT = 0.05  # what the speed of a machine moves by over hours, with nothing to see it by


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """What a run has told so far. `times_s[i]` is when step `first_step + i` was completed, since training began."""

    times_s: Sequence[float]
    first_step: int = 1
    steps: int  # in all
    steps_per_epoch: int | None = None
    pause_s: float | None = None  # of one evaluation with its checkpoint, when known from elsewhere


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """Seconds from the beginning of training to its end: expected, and where it will lie nine times in ten."""

    total_s: float
    low_s: float
    high_s: float
    step_s: float
    pause_s: float
    pauses: int
    rests_on: int  # steps

    def left_s(self, now_s: float) -> float:
        return max(0.0, self.total_s - now_s)


def forecast(run: Reported) -> Forecast | None:
    """None while there is nothing to go by."""
    gaps = _gaps(run)
    if not gaps:
        return None
    usual = median(gap for _, gap in gaps)
    steps = [gap for _, gap in gaps if gap <= CLEAR * usual]
    step_s = fmean(steps)
    pauses = _Pauses.of(run, gaps, usual)
    spent_s, done = run.times_s[-1], run.first_step + len(run.times_s) - 1
    left = max(0, run.steps - done)
    total_s = spent_s + left * step_s + pauses.left * pauses.each_s
    doubt = _doubt(steps, step_s, left, total_s, pauses)
    return Forecast(
        total_s=total_s,
        low_s=max(spent_s, total_s - doubt),
        high_s=total_s + doubt,
        step_s=step_s,
        pause_s=pauses.each_s,
        pauses=pauses.left,
        rests_on=len(steps),
    )


def _gaps(run: Reported) -> list[tuple[int, float]]:
    """Between consecutive steps, each with the number of the step it led to; without the warm-up."""
    times = run.times_s
    numbered = [(run.first_step + i, max(0.0, times[i] - times[i - 1])) for i in range(1, len(times))]
    warm = [(step, gap) for step, gap in numbered if step > WARM_UP + run.first_step - 1]
    return warm or numbered


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pauses:
    """What stands between steps: how many are to come, how long one is, and whether one was seen."""

    left: int
    each_s: float
    seen: int

    @classmethod
    def of(cls, run: Reported, gaps: Sequence[tuple[int, float]], usual: float) -> "_Pauses":
        seen = [gap - usual for _, gap in gaps if gap > CLEAR * usual]
        every = run.steps_per_epoch or _rhythm([step for step, gap in gaps if gap > CLEAR * usual])
        done = run.first_step + len(run.times_s) - 1
        left = _to_come(done, run.steps, every)
        each_s = median(seen) if seen else (run.pause_s or 0.0)
        return cls(left=left if seen or run.pause_s else 0, each_s=each_s, seen=len(seen))


def _to_come(done: int, steps: int, every: int | None) -> int:
    """Pauses after the steps that are left: one at the end of each epoch, the last one included."""
    if not every:
        return 0
    return max(0, steps // every - max(0, done - 1) // every)


def _rhythm(paused_before: Sequence[int]) -> int | None:
    """After how many steps a pause comes, when they come regularly."""
    if len(paused_before) < 2:
        return None
    between = [later - earlier for earlier, later in pairwise(paused_before)]
    return round(median(between)) or None


def _doubt(steps: Sequence[float], step_s: float, left: int, total_s: float, pauses: _Pauses) -> float:
    """Half the width of an interval that holds the truth nine times in ten."""
    n = len(steps)
    spread = (sum((gap - step_s) ** 2 for gap in steps) / max(1, n - 1)) ** 0.5
    of_mean = 1.9 * spread / n**0.5 * left
    of_sum = 1.65 * spread * left**0.5
    of_pauses = pauses.left * pauses.each_s * (0.15 if pauses.seen else 1.0)
    too_few = max(0.0, SURE_STEPS - n) / SURE_STEPS * 0.5 * left * step_s
    return float((of_mean**2 + of_sum**2 + of_pauses**2 + (DRIFT * total_s) ** 2) ** 0.5 + too_few)
