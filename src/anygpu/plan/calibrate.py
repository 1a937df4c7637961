"""How long will it still take? From the first steps of a training that runs; pure arithmetic over what was reported.

The time of a training is steps, and what stands between steps: evaluations, checkpoints, the change of an epoch. Steps
are many and alike, so a few of them tell; pauses are few and long, so each kind is counted and priced by itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp, log
from statistics import fmean, median

from anygpu.plan.bill import Span

WARM_UP = 3  # compilation, caches, first pages of data: never taken as typical
CLEAR = 4.0  # a gap this many times the median step is a pause, not a slow step
SURE_STEPS = 15  # from here on an estimate rests on the run itself
SEEN, TOLD = 0.15, 0.3  # how far a pause may be off that was seen here, or in other runs; a share of it
EVALUATION = (
    0.08  # of an epoch, where none was seen: a fifth of the data held back, and only the forward pass
)
NINE_IN_TEN = 1.645
LEAST_S, LEAST_SPREAD = 1e-3, 0.01  # nothing is surer than this
GROWTH, GROWTH_SPREAD = 0.006, 0.005  # of a step, for each step before it, where steps grow: what is usual
DRIFT = 0.08  # what the speed of a machine moves by over hours, with nothing to see it by


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """What a run has told so far. `times_s[i]` is when step `first_step + i` was completed, since training began."""

    times_s: Sequence[float]
    first_step: int = 1
    steps: int  # in all
    steps_per_epoch: int | None = None
    pause_s: float | None = None  # of one evaluation with its checkpoint, when known from elsewhere
    grows: bool = (
        False  # each step works on what all before it made, as the rounds of boosting and forests do
    )


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
    pauses = _pauses(run, gaps, usual)
    spent_s, left = run.times_s[-1], max(0, run.steps - _done(run))
    growth = (
        _growth([gap for gap in gaps if gap[1] <= CLEAR * usual], step_s) if run.grows else _Growth(0.0, 0.0)
    )
    farther = (len(run.times_s) + left) / 2  # on average, from the steps that were seen to those to come
    total_s = spent_s + left * step_s * (1 + growth.each * farther) + sum(each.total_s for each in pauses)
    doubt = _doubt(steps, step_s, left, total_s, pauses)
    doubt = (doubt**2 + (NINE_IN_TEN * growth.spread * farther * left * step_s) ** 2) ** 0.5
    return Forecast(
        total_s=total_s,
        low_s=max(spent_s, total_s - doubt),
        high_s=total_s + doubt,
        step_s=step_s,
        pause_s=next((each.each_s for each in pauses), 0.0),
        pauses=sum(each.left for each in pauses),
        rests_on=len(steps),
    )


def together(own: Span, before: Span) -> Span:
    """What a run's first steps say of a quantity, and what was known before it: the surer one weighs more.

    Where the two are further apart than they allow, what was known before loses weight: this run is another one.
    """
    seen, known = _Belief.of(own), _Belief.of(before)
    apart = (seen.middle - known.middle) ** 2
    allowed = seen.variance + known.variance
    doubted = known.variance + 2 * max(0.0, apart - allowed)
    weight = doubted / (seen.variance + doubted)
    middle = weight * seen.middle + (1 - weight) * known.middle
    spread = (seen.variance * doubted / (seen.variance + doubted)) ** 0.5
    return Span(
        expected=exp(middle), low=exp(middle - NINE_IN_TEN * spread), high=exp(middle + NINE_IN_TEN * spread)
    )


@dataclass(frozen=True, slots=True)
class _Belief:
    """The logarithm of a quantity: normal, by the interval it was given with."""

    middle: float
    variance: float

    @classmethod
    def of(cls, span: Span) -> "_Belief":
        expected = max(span.expected, LEAST_S)
        high, low = max(span.high, expected), min(max(span.low, LEAST_S), expected)
        return cls(log(expected), max(LEAST_SPREAD, log(high / low) / 2 / NINE_IN_TEN) ** 2)


def _gaps(run: Reported) -> list[tuple[int, float]]:
    """Between consecutive steps, each with the number of the step it led to; without the warm-up."""
    times = run.times_s
    numbered = [(run.first_step + i, max(0.0, times[i] - times[i - 1])) for i in range(1, len(times))]
    warm = [(step, gap) for step, gap in numbered if step > WARM_UP + run.first_step - 1]
    return warm or numbered


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pauses:
    """What stands between steps: how many are to come, how long one is, and how far that may be off, as a share."""

    left: int
    each_s: float
    doubt: float

    @property
    def total_s(self) -> float:
        return self.left * self.each_s


def _pauses(run: Reported, gaps: Sequence[tuple[int, float]], usual: float) -> list[_Pauses]:
    """Those where epochs end, and those that come by a rhythm of their own, such as checkpoints."""
    every = run.steps_per_epoch
    at_ends = [gap - usual for step, gap in gaps if every and _ends_before(step, every)]
    elsewhere = [
        (step, gap - usual)
        for step, gap in gaps
        if gap > CLEAR * usual and not (every and _ends_before(step, every))
    ]
    found = [_between_epochs(run, at_ends, every, usual)] if every else []
    rhythm = _rhythm([step for step, _ in elsewhere])
    if rhythm:
        left = _to_come(_done(run), run.steps, rhythm)
        found.append(_Pauses(left=left, each_s=median(gap for _, gap in elsewhere), doubt=SEEN))
    return found


def _between_epochs(run: Reported, seen: Sequence[float], every: int, usual: float) -> _Pauses:
    """As long as those that were seen; else as was told; else as an evaluation usually is."""
    left = _to_come(_done(run), run.steps, every)
    if seen or _done(run) >= run.steps:
        return _Pauses(left=left, each_s=max(0.0, median(seen or [0.0])), doubt=SEEN)
    if run.pause_s is not None:
        return _Pauses(left=left, each_s=run.pause_s, doubt=TOLD)
    return _Pauses(left=left, each_s=EVALUATION * every * usual, doubt=1.0)


def _done(run: Reported) -> int:
    return run.first_step + len(run.times_s) - 1


def _ends_before(step: int, every: int) -> bool:
    return step > 1 and (step - 1) % every == 0


def _to_come(done: int, steps: int, every: int) -> int:
    """Pauses after the steps that are left: one at the end of each epoch, the last one included."""
    return max(0, steps // every - max(0, done - 1) // every)


def _rhythm(paused_before: Sequence[int]) -> int | None:
    """After how many steps a pause comes, when they come regularly."""
    if len(paused_before) < 2:
        return None
    between = [later - earlier for earlier, later in pairwise(paused_before)]
    return round(median(between)) or None


@dataclass(frozen=True, slots=True)
class _Growth:
    """By what share of a step each step is longer than the one before it, and how far that may be off."""

    each: float
    spread: float


def _growth(steps: Sequence[tuple[int, float]], step_s: float) -> _Growth:
    """A straight line through the steps, as far as it can be told from noise, beside what is usual."""
    usual = _Growth(GROWTH, GROWTH_SPREAD)
    middle = fmean(number for number, _ in steps)
    across = sum((number - middle) ** 2 for number, _ in steps)
    if len(steps) < 4 or not across or not step_s:
        return usual
    slope = sum((number - middle) * gap for number, gap in steps) / across
    around = sum((gap - step_s - slope * (number - middle)) ** 2 for number, gap in steps) / (len(steps) - 2)
    seen, variance = slope / step_s, around / across / step_s**2
    weight = usual.spread**2 / (usual.spread**2 + variance)
    return _Growth(max(0.0, weight * seen + (1 - weight) * usual.each), (weight * variance) ** 0.5)


def _doubt(
    steps: Sequence[float], step_s: float, left: int, total_s: float, pauses: Sequence[_Pauses]
) -> float:
    """Half the width of an interval that holds the truth nine times in ten."""
    n = len(steps)
    spread = (sum((gap - step_s) ** 2 for gap in steps) / max(1, n - 1)) ** 0.5
    of_mean = 1.9 * spread / n**0.5 * left
    of_sum = 1.65 * spread * left**0.5
    of_pauses = sum(each.total_s * each.doubt for each in pauses)
    too_few = max(0.0, SURE_STEPS - n) / SURE_STEPS * 0.5 * left * step_s
    return float((of_mean**2 + of_sum**2 + of_pauses**2 + (DRIFT * total_s) ** 2) ** 0.5 + too_few)
