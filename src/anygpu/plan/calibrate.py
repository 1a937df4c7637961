"""How long will it still take? From the first steps of a training that runs; pure arithmetic over what was reported.

The time of a training is steps, and what stands between steps: evaluations, checkpoints, the change of an epoch. Steps
are many and alike, so a few of them tell; pauses are few and long, so each kind is counted and priced by itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import fmean

from anygpu.plan.bill import Span
from anygpu.plan.gaps import WARM_UP, Gap, Seen, sort_out
from anygpu.plan.pauses import Pauses, between_epochs, unannounced

SURE_STEPS = 15  # from here on an estimate rests on the run itself
SURE_GAPS = SURE_STEPS - WARM_UP
NINE_IN_TEN = 1.645
LEAST_S, LEAST_SPREAD = 1e-3, 0.01  # nothing is surer than this
GROWTH, GROWTH_SPREAD = 0.006, 0.005  # of a step, for each step before it, where steps grow: what is usual
DRIFT = 0.08  # what the speed of a machine moves by over hours, with nothing to see it by
MOOD, MOOD_S = 0.2, 1.0  # and what steps may be off by that took no second: they saw one state of its caches


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """What a run has told so far. `times_s[i]` is when step `first_step + i` was completed, since training began."""

    times_s: Sequence[float]
    first_step: int = 1
    steps: int  # in all
    steps_per_epoch: int | None = None
    pause_s: float | None = None  # of one evaluation with its checkpoint, when known from elsewhere
    grows: bool = False  # each step works on what all before it made, as rounds of boosting may


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
    seen = sort_out(run.times_s, run.first_step, run.steps_per_epoch, grows=run.grows)
    if seen is None:
        return None
    done = run.first_step + len(run.times_s) - 1
    left, step_s = max(0, run.steps - done), fmean(gap.seconds for gap in seen.pace)
    pauses = [
        *between_epochs(seen, done=done, steps=run.steps, told_s=run.pause_s),
        *unannounced(seen, done=done, steps=run.steps),
    ]
    growth = _growth(seen.pace, step_s) if run.grows else _Growth(0.0, 0.0)
    farther = (len(run.times_s) + left) / 2  # on average, from the steps that were seen to those to come
    to_come_s = left * step_s * (1 + growth.each * farther) + sum(each.total_s for each in pauses)
    doubt = _doubt(seen, step_s, left, run.times_s[-1] + to_come_s, pauses)
    doubt = (doubt**2 + (NINE_IN_TEN * growth.spread * farther * left * step_s) ** 2) ** 0.5
    return _told(run.times_s[-1], to_come_s, doubt, step_s=step_s, pauses=pauses, rests_on=seen.count)


def _told(
    spent_s: float, to_come_s: float, doubt: float, *, step_s: float, pauses: Sequence[Pauses], rests_on: int
) -> Forecast:
    return Forecast(
        total_s=spent_s + to_come_s,
        low_s=spent_s + max(0.0, to_come_s - doubt),
        high_s=spent_s + to_come_s + doubt,
        step_s=step_s,
        pause_s=next((each.each_s for each in pauses), 0.0),
        pauses=sum(each.left for each in pauses),
        rests_on=rests_on,
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


@dataclass(frozen=True, slots=True)
class _Growth:
    """By what share of a step each step is longer than the one before it, and how far that may be off."""

    each: float
    spread: float


def _growth(steps: Sequence[Gap], step_s: float) -> _Growth:
    """A straight line through the steps, as far as it can be told from noise, beside what is usual."""
    usual = _Growth(GROWTH, GROWTH_SPREAD)
    middle = fmean(gap.step for gap in steps)
    across = sum((gap.step - middle) ** 2 for gap in steps)
    if len(steps) < 4 or not across or not step_s:
        return usual
    slope = sum((gap.step - middle) * gap.seconds for gap in steps) / across
    off = [gap.seconds - step_s - slope * (gap.step - middle) for gap in steps]
    around = sum(each**2 for each in off) / (len(steps) - 2)
    seen, variance = slope / step_s, around / across / step_s**2
    weight = usual.spread**2 / (usual.spread**2 + variance)
    return _Growth(max(0.0, weight * seen + (1 - weight) * usual.each), (weight * variance) ** 0.5)


def _doubt(seen: Seen, step_s: float, left: int, total_s: float, pauses: Sequence[Pauses]) -> float:
    """Half the width of an interval that holds the truth nine times in ten."""
    n = len(seen.pace)
    spread = (sum((gap.seconds - step_s) ** 2 for gap in seen.pace) / max(1, n - 1)) ** 0.5
    parts = (
        1.9 * spread / n**0.5 * left,
        NINE_IN_TEN * spread * left**0.5,
        sum(each.doubt_s for each in pauses),
        DRIFT * total_s,
        MOOD * max(0.0, 1 - seen.covered_s / MOOD_S) * left * step_s,
    )
    too_few = max(0.0, SURE_STEPS - n) / SURE_STEPS * 0.5 * left * step_s
    return float(sum(part**2 for part in parts) ** 0.5 + too_few)
