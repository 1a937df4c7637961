"""Events about a job as a whole: it waits, is planned, edited, retried, and ends."""

from dataclasses import replace

from anygpu.events.facts import FIRST_STEPS, Phase, Status
from anygpu.events.transitions.rules import apply, require, require_live, with_attempt
from anygpu.events.types import (
    TERMINAL,
    BetterPlaceFound,
    CancelRequested,
    Event,
    JobCancelled,
    JobCompleted,
    JobDeleted,
    JobEdited,
    JobFailed,
    JobPlanned,
    JobWaited,
    MigrateRequested,
    RecoveryStarted,
    StartRequested,
)
from anygpu.events.view import JobView


@apply.register
def _(event: JobWaited, view: JobView, at_ms: int) -> JobView:
    require(view.live_attempt is None, event, "an attempt is live")
    return replace(view, phase=Phase.WAITING, status=Status.QUEUED, reason=event.reason)


@apply.register
def _(event: JobPlanned, view: JobView, at_ms: int) -> JobView:
    newest = event.prediction or view.prediction
    beforehand = newest if newest is not None and newest.basis != FIRST_STEPS else None
    return replace(
        view,
        plan=event.plan or view.plan,
        predicted=view.predicted or beforehand,
        prediction=newest,
        calibrated=_calibrated_attempt(event, view),
        code_resumes=view.code_resumes if event.code_resumes is None else event.code_resumes,
    )


def _calibrated_attempt(event: JobPlanned, view: JobView) -> int:
    told, live = event.prediction, view.live_attempt
    if told is None:
        return view.calibrated
    return live.number if live is not None and told.basis == FIRST_STEPS else 0


@apply.register
def _(event: BetterPlaceFound, view: JobView, at_ms: int) -> JobView:
    require_live(event, event.attempt, view)
    return replace(view, better=event.better)


@apply.register
def _(event: CancelRequested, view: JobView, at_ms: int) -> JobView:
    return replace(view, cancel_requested=True)


@apply.register
def _(event: MigrateRequested, view: JobView, at_ms: int) -> JobView:
    require(not view.cancel_requested, event, "the job is being cancelled")
    return replace(view, migrate_to=event.to)


@apply.register
def _(event: StartRequested, view: JobView, at_ms: int) -> JobView:
    require(not view.cancel_requested, event, "the job is being cancelled")
    require(view.live_attempt is None, event, "an attempt is live")
    return replace(view, start_requested_at_ms=at_ms, retry_delay_s=0)


@apply.register
def _(event: RecoveryStarted, view: JobView, at_ms: int) -> JobView:
    newest = view.newest_attempt
    require(newest is not None and newest.number == event.attempt, event, "the attempt is not the newest one")
    require(newest is not None and newest.is_over, event, "the attempt is not over")
    require(view.recovering_since_ms is None, event, "already recovering")
    view = with_attempt(
        view,
        event.attempt,
        lambda a: replace(
            a,
            failure=event.failure,
            work_lost_s=event.work_lost_s,
            work_lost_microusd=event.work_lost_microusd,
        ),
    )
    return replace(
        view,
        phase=Phase.RECOVERING,
        retries_used=view.retries_used + 1 if event.counts else view.retries_used,
        retry_delay_s=event.delay_s,
        recovering_since_ms=at_ms,
        work_lost_s=view.work_lost_s + event.work_lost_s,
        work_lost_microusd=view.work_lost_microusd + event.work_lost_microusd,
    )


@apply.register
def _(event: JobCompleted, view: JobView, at_ms: int) -> JobView:
    return _end_job(event, view, at_ms, Status.COMPLETED)


@apply.register
def _(event: JobFailed, view: JobView, at_ms: int) -> JobView:
    view = with_attempt(view, len(view.attempts), lambda a: replace(a, failure=event.failure))
    return replace(_end_job(event, view, at_ms, Status.FAILED), failure=event.failure)


@apply.register
def _(event: JobCancelled, view: JobView, at_ms: int) -> JobView:
    return _end_job(event, view, at_ms, Status.CANCELLED)


@apply.register
def _(event: JobEdited, view: JobView, at_ms: int) -> JobView:
    return replace(
        view,
        name=view.name if event.name is None else event.name,
        edited_tags=view.edited_tags if event.tags is None else event.tags,
        notes=view.notes if event.notes is None else event.notes,
    )


@apply.register
def _(event: JobDeleted, view: JobView, at_ms: int) -> JobView:
    require(view.is_terminal, event, "the job has not ended")
    return view


def _end_job(event: Event, view: JobView, at_ms: int, status: Status) -> JobView:
    assert isinstance(event, TERMINAL)
    left = [a.number for a in view.attempts if not a.is_released]
    require(not left, event, f"attempts {left} are not released")
    return replace(view, status=status, phase=Phase.ENDED, reason="", ended_at_ms=at_ms)
