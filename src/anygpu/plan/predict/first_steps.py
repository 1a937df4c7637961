"""Forecast the duration of a running training from the times of its first steps. Pure functions.

Training time consists of steps and of pauses between steps, for evaluations, checkpoints and new epochs.
There are many similar steps, so the times of a few are enough to predict the others. Pauses are rare and
long, so they are predicted separately: pauses at the end of each epoch, and other pauses, by how often they
occurred so far.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import exp, log
from statistics import fmean, median

from anygpu.plan.offers.bill import Span

WARM_UP = 3  # steps with compilation, cold caches and first data: not typical
PAUSE_FACTOR = 4.0  # a gap this many times the usual step is a pause, not a slow step
SAME_KIND_FACTOR = 1.5  # pauses of one kind differ by less
PACE_CHANGE_FACTOR = 1.2  # all later steps are longer or shorter than all earlier ones by this factor
PACE_CHANGE_SHARE = 3  # at least one step in three has the new pace


@dataclass(frozen=True, slots=True)
class Gap:
    """The time between the ends of two consecutive steps. `step` is the number of the later step."""

    step: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GapStatistics:
    """The gaps after the first few steps, classified as plain steps, pauses and ends of epochs."""

    per_epoch: int | None
    in_epochs: Sequence[Gap]  # all gaps within epochs
    epoch_ends: Sequence[Gap]  # gaps between epochs
    pauses: Sequence[Gap]  # gaps within epochs that are too long for a step
    step_gaps: Sequence[Gap]  # plain steps since the pace last changed
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
    """Classify the times between steps as steps, pauses and ends of epochs; return None if there are none.

    `per_epoch` is the number of steps per epoch; epochs of a single step are ignored. `grows` means that later steps
    take longer, so that a change of speed is normal.
    """
    gaps = _after_warm_up(times_s, first_step)
    if not gaps:
        return None
    every = per_epoch if per_epoch and per_epoch > 1 else None
    in_epochs = [gap for gap in gaps if not (every and _starts_epoch(gap.step, every))] or gaps
    latest = in_epochs if grows else _since_pace_change(in_epochs)
    usual_s = median(gap.seconds for gap in latest)
    longest_s = _max_step_s(in_epochs, usual_s)
    return GapStatistics(
        per_epoch=every,
        in_epochs=in_epochs,
        epoch_ends=[gap for gap in gaps if every and _starts_epoch(gap.step, every)],
        pauses=[gap for gap in in_epochs if gap.seconds > longest_s],
        step_gaps=[gap for gap in latest if gap.seconds <= longest_s],
        usual_step_s=usual_s,
    )


def _after_warm_up(times_s: Sequence[float], first_step: int) -> list[Gap]:
    gaps = [Gap(first_step + at, max(0.0, times_s[at] - times_s[at - 1])) for at in range(1, len(times_s))]
    return gaps[WARM_UP - 1 :] or gaps


def _starts_epoch(step: int, every: int) -> bool:
    return step > 1 and (step - 1) % every == 0


def _max_step_s(gaps: Sequence[Gap], usual_s: float) -> float:
    """Return the longest gap in seconds that counts as a step.

    Longer gaps are pauses. So is a gap almost as long as one that is clearly a pause.
    """
    clear = [gap.seconds for gap in gaps if gap.seconds > PAUSE_FACTOR * usual_s]
    return max(2 * usual_s, min(clear) / SAME_KIND_FACTOR) if clear else PAUSE_FACTOR * usual_s


def _since_pace_change(gaps: Sequence[Gap]) -> Sequence[Gap]:
    """Return the gaps since the speed last changed, for example because a hot GPU became slower."""
    usual_s = median(gap.seconds for gap in gaps)
    plain = [gap for gap in gaps if gap.seconds <= PAUSE_FACTOR * usual_s]
    seconds = [gap.seconds for gap in plain]
    if not min(seconds):  # several steps were reported at once
        return gaps
    least, most = [*accumulate(seconds, min)], [*accumulate(seconds, max)]
    later_least, later_most = ([*accumulate(reversed(seconds), of)][::-1] for of in (min, max))
    for split in range(len(plain) - max(1, len(plain) // PACE_CHANGE_SHARE), 0, -1):
        is_shorter = least[split - 1] > PACE_CHANGE_FACTOR * later_most[split]
        if is_shorter or most[split - 1] * PACE_CHANGE_FACTOR < later_least[split]:
            return [gap for gap in gaps if gap.step >= plain[split].step]
    return gaps


OBSERVED_ERROR, KNOWN_ERROR = 0.15, 0.3  # relative error of pauses seen in this run, or in other runs
ROUND_STEPS = 5  # people configure intervals like 10, 25 or 100; programs count from 0 or 1
# Share of an epoch for an evaluation that was not observed yet: a fifth of the data, forward pass only.
EVALUATION_SHARE = 0.08


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedPauses:
    """Pauses of one kind that are still to come: number, length of each, and uncertainty of their total."""

    count: int
    each_s: float
    uncertainty_s: float

    @property
    def total_s(self) -> float:
        return self.count * self.each_s


def epoch_pauses(
    gaps: GapStatistics, *, done: int, steps: int, known_pause_s: float | None
) -> list[ExpectedPauses]:
    """Return the expected pauses at the ends of epochs.

    The length of a pause is taken from the pauses observed in this run. If there are none yet, it is
    `known_pause_s` from other runs, or else the length of a typical evaluation.
    """
    every = gaps.per_epoch
    if not every:
        return []
    count = max(0, steps // every - max(0, done - 1) // every)
    if gaps.epoch_ends or done >= steps:
        each_s = _typical_pause_s([gap.seconds - gaps.usual_step_s for gap in gaps.epoch_ends] or [0.0])
        return [_expect_pauses(count, max(0.0, each_s), OBSERVED_ERROR)]
    if known_pause_s is not None:
        return [_expect_pauses(count, known_pause_s, KNOWN_ERROR)]
    return [_expect_pauses(count, EVALUATION_SHARE * every * gaps.usual_step_s, 1.0)]


def other_pauses(gaps: GapStatistics, *, done: int, steps: int) -> list[ExpectedPauses]:
    """Return the expected pauses within epochs: at a regular interval if any, else as often as so far.

    If no pause occurred in the second half of the observed steps, no more are expected. A single pause that
    suggests no interval is not expected again, but adds to the uncertainty.
    """
    pauses = gaps.pauses
    if not pauses:
        return []
    each_s = fmean(gap.seconds for gap in pauses) - gaps.usual_step_s
    interval = _pause_interval([gap.step for gap in pauses], done)
    if interval:
        count = max(0, steps + 1 - pauses[-1].step) // interval
        return [_expect_pauses(count, each_s, OBSERVED_ERROR if len(pauses) > 1 else 1.0)]
    if gaps.usual_step_s and pauses[-1].step <= gaps.in_epochs[len(gaps.in_epochs) // 2].step:
        return []
    possible = round(max(0, steps - done) * len(pauses) / len(gaps.in_epochs))
    count = possible if len(pauses) > 1 else 0
    return [ExpectedPauses(count=count, each_s=each_s, uncertainty_s=possible * each_s / len(pauses) ** 0.5)]


def _expect_pauses(count: int, each_s: float, error: float) -> ExpectedPauses:
    """Return `count` expected pauses of `each_s` seconds.

    `error` is the relative uncertainty of the length of one pause.
    """
    return ExpectedPauses(count=count, each_s=each_s, uncertainty_s=count * each_s * error)


def _typical_pause_s(pauses: Sequence[float]) -> float:
    """Return the mean length of the pauses in seconds.

    The mean is used instead of the median, because not every epoch ends with an evaluation or a checkpoint.
    A first pause that is far longer than the others is left out.
    """
    rest = pauses[1:]
    return fmean(rest if len(rest) > 1 and pauses[0] > PAUSE_FACTOR * max(rest) else pauses)


def _pause_interval(paused_before: Sequence[int], done: int) -> int | None:
    """Return the number of steps between pauses; None if it varies, or if the next pause is overdue."""
    between = [later - one for one, later in pairwise(paused_before)] or _interval_from_start(
        paused_before[0]
    )
    if not between or max(between) - min(between) > 1:
        return None
    every = round(median(between))
    return every if every and paused_before[-1] + every > done else None


def _interval_from_start(paused_before: int) -> list[int]:
    """Return the interval in steps that a single pause suggests, as a list of at most one number.

    A pause after a round number of steps, such as 100, suggests an interval of that many steps.
    """
    steps = paused_before - 1
    return [steps] if steps % ROUND_STEPS in (0, 1) else []


CONFIDENT_STEPS = 15  # from here on the forecast relies on the run itself
CONFIDENT_GAPS = CONFIDENT_STEPS - WARM_UP
Z_90 = 1.645
MIN_S, MIN_SPREAD = 1e-3, 0.01  # lower bounds of a time and of a spread
GROWTH, GROWTH_SPREAD = 0.006, 0.005  # prior growth per step, for trainings whose steps grow
DRIFT = 0.08  # unobserved change of a machine's speed over hours
CACHE_SPREAD, CACHE_WINDOW_S = 0.2, 1.0  # error of steps measured for less than a second: caches vary


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTimes:
    """Step times of a run.

    `times_s[i]` is the time from the start of training to the end of step `first_step + i`.
    """

    times_s: Sequence[float]
    first_step: int = 1
    total_steps: int
    steps_per_epoch: int | None = None
    known_pause_s: float | None = None  # one evaluation with its checkpoint, known from other runs
    steps_grow: bool = False  # later steps take longer, as in boosting


@dataclass(frozen=True, slots=True, kw_only=True)
class StepForecast:
    """The predicted time from the start to the end of training, with a 90 % interval and its parts."""

    total_s: float
    low_s: float
    high_s: float
    step_s: float
    pause_s: float
    pauses: int
    step_count: int  # observed steps

    def remaining_s(self, now_s: float) -> float:
        return max(0.0, self.total_s - now_s)


def forecast_duration(run: StepTimes) -> StepForecast | None:
    """Forecast the total duration of a run; return None if fewer than two steps were reported."""
    gaps = classify_gaps(run.times_s, run.first_step, run.steps_per_epoch, grows=run.steps_grow)
    if gaps is None:
        return None
    done = run.first_step + len(run.times_s) - 1
    steps_left, step_s = max(0, run.total_steps - done), fmean(gap.seconds for gap in gaps.step_gaps)
    pauses = [
        *epoch_pauses(gaps, done=done, steps=run.total_steps, known_pause_s=run.known_pause_s),
        *other_pauses(gaps, done=done, steps=run.total_steps),
    ]
    growth = _growth(gaps.step_gaps, step_s) if run.steps_grow else _Growth(0.0, 0.0)
    mean_distance = (len(run.times_s) + steps_left) / 2  # in steps, from the observed to the remaining ones
    pauses_s = sum(each.total_s for each in pauses)
    remaining_s = steps_left * step_s * (1 + growth.each * mean_distance) + pauses_s
    uncertainty = _half_width(gaps, step_s, steps_left, run.times_s[-1] + remaining_s, pauses)
    uncertainty = (uncertainty**2 + (Z_90 * growth.spread * mean_distance * steps_left * step_s) ** 2) ** 0.5
    return _make_forecast(
        run.times_s[-1], remaining_s, uncertainty, step_s=step_s, pauses=pauses, step_count=gaps.count
    )


def _make_forecast(
    spent_s: float,
    remaining_s: float,
    uncertainty: float,
    *,
    step_s: float,
    pauses: Sequence[ExpectedPauses],
    step_count: int,
) -> StepForecast:
    return StepForecast(
        total_s=spent_s + remaining_s,
        low_s=spent_s + max(0.0, remaining_s - uncertainty),
        high_s=spent_s + remaining_s + uncertainty,
        step_s=step_s,
        pause_s=next((each.each_s for each in pauses), 0.0),
        pauses=sum(each.count for each in pauses),
        step_count=step_count,
    )


def combine_estimates(own: Span, before: Span) -> Span:
    """Combine the estimate from a run's own steps with an earlier estimate, weighted by their certainty.

    If the two estimates differ by more than their intervals allow, the earlier one gets less weight, because
    it may be for a different kind of run.
    """
    new, prior = _LogNormal.of(own), _LogNormal.of(before)
    distance = (new.mean - prior.mean) ** 2
    allowed = new.variance + prior.variance
    prior_variance = prior.variance + 2 * max(0.0, distance - allowed)
    weight = prior_variance / (new.variance + prior_variance)
    mean = weight * new.mean + (1 - weight) * prior.mean
    spread = (new.variance * prior_variance / (new.variance + prior_variance)) ** 0.5
    return Span(expected=exp(mean), low=exp(mean - Z_90 * spread), high=exp(mean + Z_90 * spread))


@dataclass(frozen=True, slots=True)
class _LogNormal:
    """A log-normal distribution, fitted to the 90 % interval of a quantity."""

    mean: float
    variance: float

    @classmethod
    def of(cls, span: Span) -> "_LogNormal":
        expected = max(span.expected, MIN_S)
        high, low = max(span.high, expected), min(max(span.low, MIN_S), expected)
        return cls(log(expected), max(MIN_SPREAD, log(high / low) / 2 / Z_90) ** 2)


@dataclass(frozen=True, slots=True)
class _Growth:
    """By which fraction the step time grows with each step (`each`), and the standard error (`spread`)."""

    each: float
    spread: float


def _growth(steps: Sequence[Gap], step_s: float) -> _Growth:
    """Estimate the growth of the step time by linear regression, averaged with a prior by their certainty."""
    prior = _Growth(GROWTH, GROWTH_SPREAD)
    mean = fmean(gap.step for gap in steps)
    squares = sum((gap.step - mean) ** 2 for gap in steps)
    if len(steps) < 4 or not squares or not step_s:
        return prior
    slope = sum((gap.step - mean) * gap.seconds for gap in steps) / squares
    residuals = [gap.seconds - step_s - slope * (gap.step - mean) for gap in steps]
    residual_variance = sum(each**2 for each in residuals) / (len(steps) - 2)
    measured, variance = slope / step_s, residual_variance / squares / step_s**2
    weight = prior.spread**2 / (prior.spread**2 + variance)
    return _Growth(max(0.0, weight * measured + (1 - weight) * prior.each), (weight * variance) ** 0.5)


def _half_width(
    gaps: GapStatistics, step_s: float, steps_left: int, total_s: float, pauses: Sequence[ExpectedPauses]
) -> float:
    """Return half the width of the 90 % interval for the total duration, in seconds."""
    n = len(gaps.step_gaps)
    spread = (sum((gap.seconds - step_s) ** 2 for gap in gaps.step_gaps) / max(1, n - 1)) ** 0.5
    parts = (
        1.9 * spread / n**0.5 * steps_left,
        Z_90 * spread * steps_left**0.5,
        sum(each.uncertainty_s for each in pauses),
        DRIFT * total_s,
        CACHE_SPREAD * max(0.0, 1 - gaps.covered_s / CACHE_WINDOW_S) * steps_left * step_s,
    )
    too_few = max(0.0, CONFIDENT_STEPS - n) / CONFIDENT_STEPS * 0.5 * steps_left * step_s
    return float(sum(part**2 for part in parts) ** 0.5 + too_few)
