"""Predict how long a running job takes and what it costs, from the steps it has reported.

The supervisor calls `Forecasts` in each round of its loop; the functions are pure.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import itemgetter
from statistics import median
from typing import Any

from anygpu.control.accounting.money import cost_so_far
from anygpu.control.clock import Clock
from anygpu.control.timers import TimerQueue
from anygpu.errors import NotFound
from anygpu.events.facts import FIRST_STEPS, Prediction
from anygpu.events.types import Event, JobPlanned
from anygpu.events.view import AttemptView, JobView
from anygpu.plan.offers.bill import RESTART_S, SPOT_LIFETIME_S, Span, expected_wall_s
from anygpu.plan.predict.first_steps import (
    CONFIDENT_GAPS,
    CONFIDENT_STEPS,
    StepTimes,
    combine_estimates,
    forecast_duration,
)
from anygpu.plan.predict.history import HISTORY_BASIS
from anygpu.spec.jobspec import JobSpec
from anygpu.store.journal import Guard, Journal
from anygpu.store.reports import MetricPoint, Reports, ReportState
from anygpu.store.scope import SYSTEM

SAVE_S = 5.0
TEARDOWN_S, TEARDOWN_PAID_S = 2.0, 30.0  # from the last step until the machine is gone


def predict(view: JobView, attempt: AttemptView, run: StepTimes, now_ms: int) -> Prediction | None:
    """Predict time and cost of the whole job from its first steps. None while there are too few steps."""
    left = _remaining_training(run, view.spec)
    if left is None:
        return None
    gone_s = (now_ms - view.attempts[0].launching_at_ms) / 1000
    wall = _with_history(view, _total_wall_time(view, attempt, left, gone_s))
    ages = {a.number: (now_ms - (a.started_at_ms or a.launching_at_ms)) / 1000 for a in view.attempts}
    return Prediction(
        wall_s=wall.expected,
        wall_low_s=wall.low,
        wall_high_s=wall.high,
        cost_microusd=cost_so_far(view, ages, ahead_s=wall.expected - gone_s),
        cost_low_microusd=cost_so_far(view, ages, ahead_s=max(0.0, wall.low - gone_s)),
        cost_high_microusd=cost_so_far(view, ages, ahead_s=wall.high - gone_s),
        basis=FIRST_STEPS,
        confidence="medium" if attempt.offer.interruptible else "high",
    )


def has_changed(known: Prediction | None, newer: Prediction) -> bool:
    """Return whether the prediction `newer` is worth recording.

    True if `known` was not made from the job's own steps, or if the newer values are outside the range of
    `known`.
    """
    if known is None or known.basis != FIRST_STEPS:
        return True
    inside_time = known.wall_low_s <= newer.wall_s <= known.wall_high_s
    return not inside_time or not known.cost_low_microusd <= newer.cost_microusd <= known.cost_high_microusd


def _remaining_training(run: StepTimes, spec: JobSpec) -> Span | None:
    """Return the seconds of training left after the last report. None while there are too few steps."""
    grown = spec.trainer is not None and _steps_grow(spec.trainer, spec.config)
    found = forecast_duration(replace(run, steps_grow=grown))
    if found is None or found.step_count < CONFIDENT_GAPS or not found.high_s < LONGEST_S:
        return None
    gone_s = run.times_s[-1]
    return Span(
        expected=found.total_s - gone_s, low=max(0.0, found.low_s - gone_s), high=found.high_s - gone_s
    )


def _steps_grow(trainer: str, config: Mapping[str, Any]) -> bool:
    from anygpu.trainers.registry import steps_grow  # the start of a server must not load the trainers

    return steps_grow(trainer, config)


def _total_wall_time(view: JobView, attempt: AttemptView, left: Span, gone_s: float) -> Span:
    """Return the time of the whole job: elapsed time, remaining training and teardown."""
    ending_s = TEARDOWN_PAID_S if attempt.hourly_microusd else TEARDOWN_S
    return Span(
        expected=gone_s + with_interruptions(view, attempt, left.expected) + ending_s,
        low=gone_s + left.low,
        high=gone_s + with_interruptions(view, attempt, left.high) + 2 * ending_s,
    )


def _with_history(view: JobView, own: Span) -> Span:
    """Combine the prediction from the job's own steps (`own`) with the one from past runs.

    From the second attempt on, and without a prediction from past runs, `own` is returned.
    """
    said = view.predicted
    if said is None or said.basis != HISTORY_BASIS or len(view.attempts) > 1:
        return own
    both = combine_estimates(own, Span(expected=said.wall_s, low=said.wall_low_s, high=said.wall_high_s))
    return Span(
        expected=max(both.expected, own.low), low=max(both.low, own.low), high=max(both.high, own.low)
    )


def with_interruptions(view: JobView, attempt: AttemptView, work_s: float) -> float:
    """Return the wall time that `work_s` of training takes on the attempt's offer.

    On spot the expected interruptions are added.
    """
    if not attempt.offer.interruptible:
        return work_s
    return expected_wall_s(
        work_s,
        save_s=SAVE_S,
        every_s=view.spec.checkpoint.every_s,
        between_failures_s=SPOT_LIFETIME_S,
        restart_s=RESTART_S,
    )


LONGEST_S = 1e10  # three hundred years: the limit of times and of forecasts
MAX_STEPS = 2_000  # per window; more frequent reports are thinned


def read_steps(points: Iterable[MetricPoint], progress: Mapping[str, Any]) -> StepTimes | None:
    """Read the times of steps from metric points.

    None until the run has reported both its steps and their total. The steps of a run that counts only epochs are
    its epochs.
    """
    steps, done = _counted_steps(progress)
    observed = _first_times(points)
    if not steps or not done or len(observed) < 2:
        return None
    if not _positive_int(progress.get("steps")):
        return _read_epochs(observed, steps, done)
    stride = _report_stride([step for step, _ in observed])
    first, last = observed[0][0], observed[-1][0]
    if not 0 < last <= done + stride or (last - first) // stride < 1:
        return None
    units = range(first // stride, last // stride + 1)
    epochs = _positive_int(progress.get("epochs"))
    return StepTimes(
        times_s=[_time_of_step(observed, unit * stride) - observed[0][1] for unit in units],
        first_step=max(1, units[0]),
        total_steps=-(-steps // stride),
        steps_per_epoch=steps // epochs // stride or None if epochs else None,
    )


def _counted_steps(progress: Mapping[str, Any]) -> tuple[int, int]:
    """Return the total and the completed number of steps, or of epochs if no total of steps is known."""
    unit = "step" if _positive_int(progress.get("steps")) else "epoch"
    return _positive_int(progress.get(f"{unit}s")), _positive_int(progress.get(unit))


def _read_epochs(observed: Sequence[tuple[int, float]], epochs: int, done: int) -> StepTimes | None:
    """Return the times of epochs; None if the metrics are not counted in epochs."""
    first, last = observed[0][0], observed[-1][0]
    if abs(last - done) > 1 or _report_stride([step for step, _ in observed]) != 1:
        return None
    return StepTimes(
        times_s=[_time_of_step(observed, epoch) - observed[0][1] for epoch in range(first, last + 1)],
        first_step=max(1, first),
        total_steps=epochs,
    )


def step_s(points: Iterable[MetricPoint]) -> float | None:
    """Return the median seconds per step, or None if too few steps were reported."""
    observed = _first_times(points)
    each = [(later[1] - one[1]) / (later[0] - one[0]) for one, later in pairwise(observed)]
    return median(each) if len(each) >= 2 and median(each) > 0 else None


def _positive_int(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _first_times(points: Iterable[MetricPoint]) -> list[tuple[int, float]]:
    """Return pairs of a step and the time of its first report, ordered by step.

    Steps whose time is before that of an earlier step are left out.
    """
    first: dict[int, float] = {}
    for point in points:
        if 0 <= point.at < LONGEST_S:  # the clock of an agent can have any value
            first.setdefault(point.step, point.at)
    ordered: list[tuple[int, float]] = []
    for step, at in sorted(first.items()):
        if not ordered or at >= ordered[-1][1]:
            ordered.append((step, at))
    return ordered


def _report_stride(steps: Sequence[int]) -> int:
    """Return the usual number of steps between two reports.

    A larger number is returned if there would be more than about `MAX_STEPS` times otherwise.
    """
    usual = round(median(later - one for one, later in pairwise(steps)))
    return max(1, usual, (steps[-1] - steps[0]) // MAX_STEPS)


def _time_of_step(observed: Sequence[tuple[int, float]], step: int) -> float:
    """Return the time of a step, interpolated linearly between the two reports around the step."""
    at = bisect_left(observed, step, key=itemgetter(0))
    after = observed[min(at, len(observed) - 1)]
    before = after if after[0] <= step or at == 0 else observed[at - 1]
    if after[0] == before[0]:
        return before[1]
    return before[1] + (after[1] - before[1]) * (step - before[0]) / (after[0] - before[0])


Key = tuple[str, int]
FIRST_CHECK_S = 1.0
MAX_PAUSE_S = 600.0
BACKOFF = 1.5  # each pause between two checks is longer than the last by this factor
MAX_RECORDED = 6  # predictions per attempt
WINDOW = 1_000  # newest metric points that a prediction uses
FORECAST_BATCH = 200  # attempts per pass


@dataclass(slots=True)
class _Watched:
    pause_s: float = FIRST_CHECK_S
    recorded: int = 0


class Forecasts:
    """Watches attempts that train, and records predictions of their time and cost.

    The times of the next checks are kept in memory only.
    """

    def __init__(self, journal: Journal, reports: Reports, clock: Clock) -> None:
        self._journal, self._reports, self._clock = journal, reports, clock
        self._watched: dict[Key, _Watched] = {}
        self._timers: TimerQueue[Key] = TimerQueue()

    def update(self, view: JobView) -> None:
        """Watch the current attempt of a job once it trains, and stop watching attempts that are over."""
        live = view.live_attempt
        for key in [(view.id, attempt.number) for attempt in view.attempts if attempt is not live]:
            self._watched.pop(key, None)
            self._timers.drop(key)
        if live is not None and live.training_at_ms is not None and not live.stop_reason:
            key = view.id, live.number
            if key not in self._watched:
                self._watched[key] = _Watched()
                self._timers.set(key, self._clock.monotonic() + FIRST_CHECK_S)

    def next_at(self) -> float:
        return self._timers.next_at()

    async def run(self, guard: Guard) -> None:
        now = self._clock.monotonic()
        due = self._timers.due(now, FORECAST_BATCH)
        for key in due:
            self._check_later(key, now)
        for key, row in (await self._reports.states(due)).items():
            if _has_enough_steps(row.progress):
                await self._forecast(key, row, guard)

    def _check_later(self, key: Key, now: float) -> None:
        watched = self._watched[key]
        self._timers.set(key, now + watched.pause_s)
        watched.pause_s = min(MAX_PAUSE_S, watched.pause_s * BACKOFF)

    async def _forecast(self, key: Key, row: ReportState, guard: Guard) -> None:
        job_id, number = key
        after = max(0, row.marks.metric_points - WINDOW)
        points, _ = await self._reports.points(job_id, number, after=after, limit=WINDOW)
        run = read_steps(points, row.progress)
        if run is not None and await self._record(key, run, guard):
            self._count_recorded(key)

    async def _record(self, key: Key, run: StepTimes, guard: Guard) -> bool:
        job_id, number = key
        now_ms = self._clock.wall_ms()

        def decide(view: JobView) -> list[Event]:
            attempt = _training_attempt(view, number)
            newer = predict(view, attempt, run, now_ms) if attempt is not None else None
            news = newer is not None and (view.calibrated != number or has_changed(view.prediction, newer))
            return [JobPlanned(prediction=newer)] if news else []

        try:
            if not decide(await self._journal.view(SYSTEM, job_id)):
                return False
            written = await self._journal.transact(SYSTEM, job_id, decide, at_ms=now_ms, guard=guard)
        except NotFound:
            return False
        return bool(written.recorded)

    def _count_recorded(self, key: Key) -> None:
        watched = self._watched.get(key)
        if watched is not None:
            watched.recorded += 1
            watched.pause_s = max(watched.pause_s, 30.0)
            if watched.recorded >= MAX_RECORDED:
                self._timers.drop(key)
            else:
                self._timers.set(key, self._clock.monotonic() + watched.pause_s)


def _has_enough_steps(progress: Mapping[str, object]) -> bool:
    steps, done = _counted_steps(progress)
    return done >= 2 and steps > CONFIDENT_STEPS


def _training_attempt(view: JobView, number: int) -> AttemptView | None:
    live = view.live_attempt
    return live if live is not None and live.number == number and not live.stop_reason else None
