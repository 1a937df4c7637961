"""Forecast the duration of a running training from the times of its first steps. Pure functions."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import exp, log
from statistics import fmean, median

from anygpu.plan.offers.bill import Span

WARM_UP = 3  # compilation, caches, first pages of data: never taken as typical
PAUSE_FACTOR = 4.0  # a gap this many times the usual step is a pause, not a slow step
SAME_KIND_FACTOR = 1.5  # pauses of one kind differ by less
PACE_CHANGE_FACTOR = (
    1.2  # all later steps are so much longer or shorter than all earlier ones: the pace has changed
)
PACE_CHANGE_SHARE = 3  # one step in so many has the new pace, or it is not yet one


@dataclass(frozen=True, slots=True)
class Gap:
    """`step` is the one it led to."""

    step: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GapStatistics:
    """Gaps after the warm-up. `pace` are the usual steps since the pace last changed."""

    per_epoch: int | None
    in_epochs: Sequence[Gap]  # epochs
    epoch_ends: Sequence[Gap]  # of epochs
    pauses: Sequence[Gap]  # within epochs, and no steps: pauses that nobody announced
    step_gaps: Sequence[Gap]
    usual_step_s: float

    @property
    def count(self) -> int:
        return len(self.in_epochs) + len(self.epoch_ends)

    @property
    def covered_s(self) -> float:
        return sum(gap.seconds for gap in self.step_gaps)


def classify_gaps(
    times_s: Sequence[float], first_step: int, per_epoch: int | None, *, grows: bool = False
) -> GapStatistics | None:
    """None while there is nothing to go by. Where every step is an epoch, its end tells nothing."""
    gaps = _after_warm_up(times_s, first_step)
    if not gaps:
        return None
    every = per_epoch if per_epoch and per_epoch > 1 else None
    within = [gap for gap in gaps if not (every and _starts_epoch(gap.step, every))] or gaps
    latest = within if grows else _since_pace_change(within)
    usual_s = median(gap.seconds for gap in latest)
    longest_s = _max_step_s(within, usual_s)
    return GapStatistics(
        per_epoch=every,
        in_epochs=within,
        epoch_ends=[gap for gap in gaps if every and _starts_epoch(gap.step, every)],
        pauses=[gap for gap in within if gap.seconds > longest_s],
        step_gaps=[gap for gap in latest if gap.seconds <= longest_s],
        usual_step_s=usual_s,
    )


def _after_warm_up(times_s: Sequence[float], first_step: int) -> list[Gap]:
    gaps = [Gap(first_step + at, max(0.0, times_s[at] - times_s[at - 1])) for at in range(1, len(times_s))]
    return gaps[WARM_UP - 1 :] or gaps


def _starts_epoch(step: int, every: int) -> bool:
    return step > 1 and (step - 1) % every == 0


def _max_step_s(gaps: Sequence[Gap], usual_s: float) -> float:
    """What is longer is a pause; what comes near to one that is clear is one too, so that a kind stays together."""
    clear = [gap.seconds for gap in gaps if gap.seconds > PAUSE_FACTOR * usual_s]
    return max(2 * usual_s, min(clear) / SAME_KIND_FACTOR) if clear else PAUSE_FACTOR * usual_s


def _since_pace_change(gaps: Sequence[Gap]) -> Sequence[Gap]:
    """Since the pace last changed: a long warm-up ended, a buffer ran dry, the machine got hot."""
    usual_s = median(gap.seconds for gap in gaps)
    plain = [gap for gap in gaps if gap.seconds <= PAUSE_FACTOR * usual_s]
    seconds = [gap.seconds for gap in plain]
    if not min(seconds):  # steps in no time are none: they were reported together
        return gaps
    least, most = [*accumulate(seconds, min)], [*accumulate(seconds, max)]
    later_least, later_most = ([*accumulate(reversed(seconds), of)][::-1] for of in (min, max))
    for split in range(len(plain) - max(1, len(plain) // PACE_CHANGE_SHARE), 0, -1):
        is_shorter = least[split - 1] > PACE_CHANGE_FACTOR * later_most[split]
        if is_shorter or most[split - 1] * PACE_CHANGE_FACTOR < later_least[split]:
            return [gap for gap in gaps if gap.step >= plain[split].step]
    return gaps


OBSERVED_ERROR, KNOWN_ERROR = (
    0.15,
    0.3,
)  # how far a pause may be off that was seen here, or in other runs; a share of it
ROUND_STEPS = 5  # people say every 10, 25 or 100 steps; programs count from 0 or from 1
# Of an epoch, where no evaluation was seen: a fifth of the data held back, and only the forward pass.
EVALUATION_SHARE = 0.08


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedPauses:
    """Of one kind: how many are expected, how long one is, and how far all of them may be off."""

    count: int
    each_s: float
    uncertainty_s: float

    @property
    def total_s(self) -> float:
        return self.count * self.each_s


def epoch_pauses(
    seen: GapStatistics, *, done: int, steps: int, known_pause_s: float | None
) -> list[ExpectedPauses]:
    """As long as those that were seen; else as was told; else as an evaluation usually is."""
    every = seen.per_epoch
    if not every:
        return []
    steps_left = max(0, steps // every - max(0, done - 1) // every)
    if seen.epoch_ends or done >= steps:
        each_s = _typical_pause_s([gap.seconds - seen.usual_step_s for gap in seen.epoch_ends] or [0.0])
        return [_expect_pauses(steps_left, max(0.0, each_s), OBSERVED_ERROR)]
    if known_pause_s is not None:
        return [_expect_pauses(steps_left, known_pause_s, KNOWN_ERROR)]
    return [_expect_pauses(steps_left, EVALUATION_SHARE * every * seen.usual_step_s, 1.0)]


def other_pauses(seen: GapStatistics, *, done: int, steps: int) -> list[ExpectedPauses]:
    """Those with a rhythm go on by it. Those without one go on as often as they came, unless they have ceased.

    One alone without a rhythm is not expected again, but not impossible.
    """
    long = seen.pauses
    if not long:
        return []
    each_s = fmean(gap.seconds for gap in long) - seen.usual_step_s
    rhythm = _pause_interval([gap.step for gap in long], done)
    if rhythm:
        steps_left = max(0, steps + 1 - long[-1].step) // rhythm
        return [_expect_pauses(steps_left, each_s, OBSERVED_ERROR if len(long) > 1 else 1.0)]
    if seen.usual_step_s and long[-1].step <= seen.in_epochs[len(seen.in_epochs) // 2].step:
        return []
    steps_left = round(max(0, steps - done) * len(long) / len(seen.in_epochs))
    often = steps_left if len(long) > 1 else 0
    return [ExpectedPauses(count=often, each_s=each_s, uncertainty_s=steps_left * each_s / len(long) ** 0.5)]


def _expect_pauses(steps_left: int, each_s: float, uncertainty: float) -> ExpectedPauses:
    """`doubt`: how far one may be off, as a share of it."""
    return ExpectedPauses(count=steps_left, each_s=each_s, uncertainty_s=steps_left * each_s * uncertainty)


def _typical_pause_s(pauses: Sequence[float]) -> float:
    """The mean, since not every epoch is evaluated or saved; without the first where it alone had a warm-up."""
    rest = pauses[1:]
    return fmean(rest if len(rest) > 1 and pauses[0] > PAUSE_FACTOR * max(rest) else pauses)


def _pause_interval(paused_before: Sequence[int], done: int) -> int | None:
    """After how many steps a pause comes, when they come regularly and none is overdue."""
    between = [later - one for one, later in pairwise(paused_before)] or _interval_from_start(
        paused_before[0]
    )
    if not between or max(between) - min(between) > 1:
        return None
    every = round(median(between))
    return every if every and paused_before[-1] + every > done else None


def _interval_from_start(paused_before: int) -> list[int]:
    """Seen once, after a round number of steps, it comes again after as many; after any other, by chance."""
    steps = paused_before - 1
    return [steps] if steps % ROUND_STEPS in (0, 1) else []


CONFIDENT_STEPS = 15  # from here on an estimate rests on the run itself
CONFIDENT_GAPS = CONFIDENT_STEPS - WARM_UP
Z_90 = 1.645
MIN_S, MIN_SPREAD = 1e-3, 0.01  # nothing is surer than this
GROWTH, GROWTH_SPREAD = 0.006, 0.005  # of a step, for each step before it, where steps grow: what is usual
DRIFT = 0.08  # what the speed of a machine moves by over hours, with nothing to see it by
CACHE_SPREAD, CACHE_WINDOW_S = (
    0.2,
    1.0,
)  # and what steps may be off by that took no second: they saw one state of its caches


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTimes:
    """What a run has told so far. `times_s[i]` is when step `first_step + i` was completed, since training began."""

    times_s: Sequence[float]
    first_step: int = 1
    total_steps: int  # in all
    steps_per_epoch: int | None = None
    known_pause_s: float | None = None  # of one evaluation with its checkpoint, when known from elsewhere
    steps_grow: bool = False  # each step works on what all before it made, as rounds of boosting may


@dataclass(frozen=True, slots=True, kw_only=True)
class StepForecast:
    """Seconds from the beginning of training to its end: expected, and where it will lie nine times in ten."""

    total_s: float
    low_s: float
    high_s: float
    step_s: float
    pause_s: float
    pauses: int
    step_count: int  # steps

    def remaining_s(self, now_s: float) -> float:
        return max(0.0, self.total_s - now_s)


def forecast_duration(run: StepTimes) -> StepForecast | None:
    """None while there is nothing to go by."""
    seen = classify_gaps(run.times_s, run.first_step, run.steps_per_epoch, grows=run.steps_grow)
    if seen is None:
        return None
    done = run.first_step + len(run.times_s) - 1
    steps_left, step_s = max(0, run.total_steps - done), fmean(gap.seconds for gap in seen.step_gaps)
    pauses = [
        *epoch_pauses(seen, done=done, steps=run.total_steps, known_pause_s=run.known_pause_s),
        *other_pauses(seen, done=done, steps=run.total_steps),
    ]
    growth = _growth(seen.step_gaps, step_s) if run.steps_grow else _Growth(0.0, 0.0)
    mean_distance = (
        len(run.times_s) + steps_left
    ) / 2  # on average, from the steps that were seen to those to come
    remaining_s = steps_left * step_s * (1 + growth.each * mean_distance) + sum(
        each.total_s for each in pauses
    )
    uncertainty = _half_width(seen, step_s, steps_left, run.times_s[-1] + remaining_s, pauses)
    uncertainty = (uncertainty**2 + (Z_90 * growth.spread * mean_distance * steps_left * step_s) ** 2) ** 0.5
    return _make_forecast(
        run.times_s[-1], remaining_s, uncertainty, step_s=step_s, pauses=pauses, rests_on=seen.count
    )


def _make_forecast(
    spent_s: float,
    remaining_s: float,
    uncertainty: float,
    *,
    step_s: float,
    pauses: Sequence[ExpectedPauses],
    rests_on: int,
) -> StepForecast:
    return StepForecast(
        total_s=spent_s + remaining_s,
        low_s=spent_s + max(0.0, remaining_s - uncertainty),
        high_s=spent_s + remaining_s + uncertainty,
        step_s=step_s,
        pause_s=next((each.each_s for each in pauses), 0.0),
        pauses=sum(each.count for each in pauses),
        step_count=rests_on,
    )


def combine_estimates(own: Span, before: Span) -> Span:
    """What a run's first steps say of a quantity, and what was known before it: the surer one weighs more.

    Where the two are further apart than they allow, what was known before loses weight: this run is another one.
    """
    seen, prior = _LogNormal.of(own), _LogNormal.of(before)
    distance = (seen.middle - prior.middle) ** 2
    allowed = seen.variance + prior.variance
    prior_variance = prior.variance + 2 * max(0.0, distance - allowed)
    weight = prior_variance / (seen.variance + prior_variance)
    middle = weight * seen.middle + (1 - weight) * prior.middle
    spread = (seen.variance * prior_variance / (seen.variance + prior_variance)) ** 0.5
    return Span(expected=exp(middle), low=exp(middle - Z_90 * spread), high=exp(middle + Z_90 * spread))


@dataclass(frozen=True, slots=True)
class _LogNormal:
    """The logarithm of a quantity: normal, by the interval it was given with."""

    middle: float
    variance: float

    @classmethod
    def of(cls, span: Span) -> "_LogNormal":
        expected = max(span.expected, MIN_S)
        high, low = max(span.high, expected), min(max(span.low, MIN_S), expected)
        return cls(log(expected), max(MIN_SPREAD, log(high / low) / 2 / Z_90) ** 2)


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


def _half_width(
    seen: GapStatistics, step_s: float, steps_left: int, total_s: float, pauses: Sequence[ExpectedPauses]
) -> float:
    """Half the width of an interval that holds the truth nine times in ten."""
    n = len(seen.step_gaps)
    spread = (sum((gap.seconds - step_s) ** 2 for gap in seen.step_gaps) / max(1, n - 1)) ** 0.5
    parts = (
        1.9 * spread / n**0.5 * steps_left,
        Z_90 * spread * steps_left**0.5,
        sum(each.uncertainty_s for each in pauses),
        DRIFT * total_s,
        CACHE_SPREAD * max(0.0, 1 - seen.covered_s / CACHE_WINDOW_S) * steps_left * step_s,
    )
    too_few = max(0.0, CONFIDENT_STEPS - n) / CONFIDENT_STEPS * 0.5 * steps_left * step_s
    return float(sum(part**2 for part in parts) ** 0.5 + too_few)
