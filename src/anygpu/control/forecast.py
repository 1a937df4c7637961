"""What a job that runs will take and cost in all, by its own first steps. Pure."""

from dataclasses import replace

from anygpu.control.money import spent
from anygpu.events.facts import FIRST_STEPS, Prediction
from anygpu.events.view import AttemptView, JobView
from anygpu.plan.offers.bill import RESTART_S, SPOT_LIFETIME_S, Span, expected_wall_s
from anygpu.plan.predict.first_steps import CONFIDENT_GAPS, StepTimes, combine_estimates, forecast_duration
from anygpu.plan.predict.history import HISTORY_BASIS
from anygpu.spec.model import JobSpec
from anygpu.trainers.registry import grows

SAVE_S = 5.0
ENDING_S, ENDING_PAID_S = 2.0, 30.0  # from the last step until nothing is left: files, and ending the machine


def prediction(view: JobView, attempt: AttemptView, run: StepTimes, now_ms: int) -> Prediction | None:
    """None while there are too few steps to go by."""
    left = _left(run, view.spec)
    if left is None:
        return None
    gone_s = (now_ms - view.attempts[0].launching_at_ms) / 1000
    wall = _with_history(view, _wall(view, attempt, left, gone_s))
    ages = {a.number: (now_ms - (a.started_at_ms or a.launching_at_ms)) / 1000 for a in view.attempts}
    return Prediction(
        wall_s=wall.expected,
        wall_low_s=wall.low,
        wall_high_s=wall.high,
        cost_microusd=spent(view, ages, ahead_s=wall.expected - gone_s),
        cost_low_microusd=spent(view, ages, ahead_s=max(0.0, wall.low - gone_s)),
        cost_high_microusd=spent(view, ages, ahead_s=wall.high - gone_s),
        basis=FIRST_STEPS,
        confidence="medium" if attempt.offer.interruptible else "high",
    )


def has_moved(known: Prediction | None, newer: Prediction) -> bool:
    """Worth telling: the first of its kind, or outside of what was said last."""
    if known is None or known.basis != FIRST_STEPS:
        return True
    inside_time = known.wall_low_s <= newer.wall_s <= known.wall_high_s
    return not inside_time or not known.cost_low_microusd <= newer.cost_microusd <= known.cost_high_microusd


def _left(run: StepTimes, spec: JobSpec) -> Span | None:
    """Seconds of training from the last report on."""
    grown = spec.trainer is not None and grows(spec.trainer, spec.config)
    found = forecast_duration(replace(run, steps_grow=grown))
    if found is None or found.step_count < CONFIDENT_GAPS:
        return None
    gone_s = run.times_s[-1]
    return Span(
        expected=found.total_s - gone_s, low=max(0.0, found.low_s - gone_s), high=found.high_s - gone_s
    )


def _wall(view: JobView, attempt: AttemptView, left: Span, gone_s: float) -> Span:
    """Of the whole job: what is gone, what is left, and its ending."""
    ending_s = ENDING_PAID_S if attempt.price else ENDING_S
    return Span(
        expected=gone_s + with_interruptions(view, attempt, left.expected) + ending_s,
        low=gone_s + left.low,
        high=gone_s + with_interruptions(view, attempt, left.high) + 2 * ending_s,
    )


def _with_history(view: JobView, own: Span) -> Span:
    """Past runs of the workload go on counting, as long as the job runs where it was predicted to."""
    said = view.predicted
    if said is None or said.basis != HISTORY_BASIS or len(view.attempts) > 1:
        return own
    both = combine_estimates(own, Span(expected=said.wall_s, low=said.wall_low_s, high=said.wall_high_s))
    return Span(
        expected=max(both.expected, own.low), low=max(both.low, own.low), high=max(both.high, own.low)
    )


def with_interruptions(view: JobView, attempt: AttemptView, work_s: float) -> float:
    """What so much training takes there."""
    if not attempt.offer.interruptible:
        return work_s
    return expected_wall_s(
        work_s,
        save_s=SAVE_S,
        every_s=view.spec.checkpoint.every_s,
        between_failures_s=SPOT_LIFETIME_S,
        restart_s=RESTART_S,
    )
