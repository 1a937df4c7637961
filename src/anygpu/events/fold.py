"""The state machine of a job: fold its events into a view, and refuse events that do not fit the state of the job.

The check runs inside the journal's transaction. So a job can never have two terminal states, and only one of its
attempts can commit at a time.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import singledispatch

from anygpu.errors import Conflict
from anygpu.events.facts import FIRST_STEPS, CheckpointMark, CheckpointRef, Phase, Status
from anygpu.events.types import (
    AFTERWARDS,
    TERMINAL,
    ArtifactSaved,
    AttemptClaimed,
    AttemptEnded,
    AttemptLaunched,
    AttemptLaunching,
    AttemptLost,
    AttemptReleased,
    AttemptStranded,
    BetterPlaceFound,
    CancelRequested,
    CheckpointRejected,
    CheckpointSaved,
    Event,
    HoldEnded,
    HoldStarted,
    JobCancelled,
    JobCompleted,
    JobDeleted,
    JobEdited,
    JobFailed,
    JobPlanned,
    JobSubmitted,
    JobWaited,
    MachineStarted,
    MeterDiffered,
    MigrateRequested,
    OrphanEnded,
    RecoveryStarted,
    StartRequested,
    StopRequested,
    TrainingRestarted,
    TrainingResumed,
    TrainingStarted,
)
from anygpu.events.view import AttemptView, JobView

REMEMBERED = 50  # ids of deleted checkpoints
MAX_CHECKPOINT_MARKS = 32  # for each attempt


class InvalidEvent(Conflict):
    """The event does not fit the job's state, which has changed in the meantime. Read the job again."""

    code = "out_of_turn"
    retryable = True

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message, hint="Read the job again, and try again if it is still needed.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """An event together with its position in the journal."""

    organisation: str
    project: str
    position: int
    job_id: str
    at_ms: int
    event: Event


def fold(history: Iterable[Recorded], view: JobView | None = None) -> JobView | None:
    for recorded in history:
        view = step(view, recorded)
    return view


def step(view: JobView | None, recorded: Recorded) -> JobView:
    """Return the view (current state) of the job after one more event."""
    event = recorded.event
    if view is None:
        if not isinstance(event, JobSubmitted):
            raise InvalidEvent(
                f"the job's state does not allow the event {type(event).__name__}: the first event of a job must be "
                "JobSubmitted"
            )
        return _new_view(event, recorded)
    if view.is_terminal and not isinstance(event, AFTERWARDS):
        raise InvalidEvent(
            f"the job's state does not allow the event {type(event).__name__}: the job has already ended with the "
            f"status {view.status}"
        )
    after = _apply(event, view, recorded.at_ms)
    return replace(after, position=recorded.position, updated_at_ms=recorded.at_ms)


def _new_view(event: JobSubmitted, recorded: Recorded) -> JobView:
    only = (event.resume_checkpoint,) if event.resume_checkpoint else ()
    return JobView(
        id=recorded.job_id,
        organisation=recorded.organisation,
        project=recorded.project,
        person=event.person,
        name=event.spec.name or "",
        spec=event.spec,
        submitted_at_ms=recorded.at_ms,
        updated_at_ms=recorded.at_ms,
        position=recorded.position,
        checkpoints=event.resume_checkpoints or only,
        resumed_from=event.resumed_from,
    )


@singledispatch
def _apply(event: Event, view: JobView, at_ms: int) -> JobView:
    raise InvalidEvent(
        f"the job's state does not allow the event {type(event).__name__}: the job was already submitted, or the "
        "event type is unknown"
    )


@_apply.register
def _(event: JobWaited, view: JobView, at_ms: int) -> JobView:
    _require(view.live_attempt is None, event, "an attempt is live")
    return replace(view, phase=Phase.WAITING, status=Status.QUEUED, reason=event.reason)


@_apply.register
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


@_apply.register
def _(event: BetterPlaceFound, view: JobView, at_ms: int) -> JobView:
    _require_live(event, event.attempt, view)
    return replace(view, better=event.better)


@_apply.register
def _(event: AttemptLaunching, view: JobView, at_ms: int) -> JobView:
    _require(view.live_attempt is None, event, "another attempt is live")
    _require(
        event.attempt == len(view.attempts) + 1,
        event,
        "its attempt number does not follow that of the newest attempt",
    )
    _require(not view.cancel_requested, event, "the job is being cancelled")
    attempt = AttemptView(
        number=event.attempt,
        name=event.name,
        offer=event.offer,
        ticket_sha256=event.ticket_sha256,
        launching_at_ms=at_ms,
        resume=event.resume,
        on_demand_microusd_per_hour=event.on_demand_microusd_per_hour,
    )
    return replace(
        view,
        attempts=(*view.attempts, attempt),
        status=Status.RUNNING,
        phase=Phase.PROVISIONING,
        reason="",
        recovering_since_ms=None,
        migrate_to="",
        start_requested_at_ms=None,
        better=None,
    )


@_apply.register
def _(event: AttemptLaunched, view: JobView, at_ms: int) -> JobView:
    # A fast agent may have claimed the attempt, or even ended it, before the launch call returned.
    attempt = _find(view, event.attempt)
    _require(
        attempt is not None and not attempt.is_released,
        event,
        "the attempt does not exist or is already released",
    )
    _require(attempt is not None and attempt.handle is None, event, "already launched")
    return _with_attempt(view, event.attempt, lambda a: replace(a, handle=event.handle, launched_at_ms=at_ms))


@_apply.register
def _(event: MachineStarted, view: JobView, at_ms: int) -> JobView:
    attempt = _find(view, event.attempt)
    _require(attempt is not None and not attempt.is_released, event, "no such attempt")
    _require(attempt is not None and attempt.started_at_ms is None, event, "already started")
    price = event.price_microusd_per_hour
    return _with_attempt(
        view,
        event.attempt,
        lambda a: replace(a, started_at_ms=event.started_at_ms, price_microusd_per_hour=price),
    )


@_apply.register
def _(event: AttemptClaimed, view: JobView, at_ms: int) -> JobView:
    attempt = _require_live(event, event.attempt, view)
    _require(attempt.claimant is None, event, "already claimed")
    view = replace(view, phase=Phase.PREPARING)
    return _with_attempt(
        view, event.attempt, lambda a: replace(a, claimant=event.claimant, claimed_at_ms=at_ms)
    )


@_apply.register
def _(event: TrainingStarted, view: JobView, at_ms: int) -> JobView:
    attempt = _require_live(event, event.attempt, view)
    _require(attempt.claimant is not None, event, "no agent has claimed the attempt")
    view = replace(view, phase=Phase.TRAINING)
    return _with_attempt(view, event.attempt, lambda a: replace(a, training_at_ms=at_ms))


@_apply.register
def _(event: TrainingResumed, view: JobView, at_ms: int) -> JobView:
    _require_unknown_resume(event, event.attempt, view)
    return _with_attempt(view, event.attempt, lambda a: replace(a, resumed=True, first_step=event.first_step))


@_apply.register
def _(event: TrainingRestarted, view: JobView, at_ms: int) -> JobView:
    _require_unknown_resume(event, event.attempt, view)
    view = replace(
        view,
        work_lost_s=view.work_lost_s + event.work_lost_s,
        work_lost_microusd=view.work_lost_microusd + event.work_lost_microusd,
    )
    return _with_attempt(
        view,
        event.attempt,
        lambda a: replace(
            a,
            resumed=False,
            first_step=event.first_step,
            restart_lost_s=event.work_lost_s,
            restart_lost_microusd=event.work_lost_microusd,
        ),
    )


@_apply.register
def _(event: CheckpointSaved, view: JobView, at_ms: int) -> JobView:
    _require_live(event, event.attempt, view)
    saved = event.checkpoint
    mark = CheckpointMark(step=saved.step, saved_at_ms=saved.saved_at_ms)
    view = _with_attempt(view, event.attempt, lambda a: _with_mark(a, mark))
    return _with_checkpoints(view, (*view.checkpoints, saved))


@_apply.register
def _(event: CheckpointRejected, view: JobView, at_ms: int) -> JobView:
    good = tuple(c for c in view.checkpoints if c.id != event.checkpoint_id)
    return replace(view, checkpoints=good)


@_apply.register
def _(event: ArtifactSaved, view: JobView, at_ms: int) -> JobView:
    _require_live(event, event.attempt, view)
    others = tuple(a for a in view.artifacts if a.name != event.artifact.name)
    return replace(view, artifacts=(*others, event.artifact))


@_apply.register
def _(event: StopRequested, view: JobView, at_ms: int) -> JobView:
    _require_live(event, event.attempt, view)
    view = replace(view, phase=Phase.CHECKPOINTING)
    return _with_attempt(
        view,
        event.attempt,
        lambda a: replace(
            a, stop_reason=event.reason, stop_message=event.message, makes_room_for=event.makes_room_for
        ),
    )


@_apply.register
def _(event: CancelRequested, view: JobView, at_ms: int) -> JobView:
    return replace(view, cancel_requested=True)


@_apply.register
def _(event: MigrateRequested, view: JobView, at_ms: int) -> JobView:
    _require(not view.cancel_requested, event, "the job is being cancelled")
    return replace(view, migrate_to=event.to)


@_apply.register
def _(event: StartRequested, view: JobView, at_ms: int) -> JobView:
    _require(not view.cancel_requested, event, "the job is being cancelled")
    _require(view.live_attempt is None, event, "an attempt is live")
    return replace(view, start_requested_at_ms=at_ms, retry_delay_s=0)


@_apply.register
def _(event: AttemptEnded, view: JobView, at_ms: int) -> JobView:
    _require_live(event, event.attempt, view)
    view = replace(view, phase=Phase.FINISHING)
    return _with_attempt(
        view,
        event.attempt,
        lambda a: replace(
            a,
            ended_at_ms=at_ms,
            outcome=event.outcome,
            exit_code=event.exit_code,
            signal=event.signal,
            message=event.message,
            step=event.step,
            marks=event.marks,
            memory=event.memory,
        ),
    )


@_apply.register
def _(event: AttemptLost, view: JobView, at_ms: int) -> JobView:
    _require_live(event, event.attempt, view)
    view = replace(view, phase=Phase.FINISHING)
    return _with_attempt(
        view,
        event.attempt,
        lambda a: replace(
            a,
            ended_at_ms=at_ms,
            outcome="lost",
            lost=event.failure,
            message=event.evidence,
            marks=event.marks,
        ),
    )


@_apply.register
def _(event: HoldStarted, view: JobView, at_ms: int) -> JobView:
    attempt = _find(view, event.attempt)
    _require(
        attempt is not None and attempt.is_over and not attempt.is_released,
        event,
        "the attempt has not ended or is already released",
    )
    _require(
        attempt is not None and attempt.held_until_ms is None,
        event,
        "the machine of the attempt was already held",
    )
    view = replace(view, phase=Phase.HELD)
    return _with_attempt(view, event.attempt, lambda a: replace(a, held_until_ms=event.until_ms))


@_apply.register
def _(event: HoldEnded, view: JobView, at_ms: int) -> JobView:
    attempt = _find(view, event.attempt)
    _require(attempt is not None and attempt.is_held, event, "the machine of the attempt is not held")
    view = replace(view, phase=Phase.FINISHING)
    return _with_attempt(view, event.attempt, lambda a: replace(a, hold_ended=True))


@_apply.register
def _(event: AttemptStranded, view: JobView, at_ms: int) -> JobView:
    attempt = _find(view, event.attempt)
    _require(attempt is not None and not attempt.is_released, event, "the attempt is already released")
    view = replace(view, reason=event.reason)
    return _with_attempt(view, event.attempt, lambda a: replace(a, stranded=event.reason))


@_apply.register
def _(event: AttemptReleased, view: JobView, at_ms: int) -> JobView:
    attempt = _find(view, event.attempt)
    _require(attempt is not None and attempt.is_over, event, "the attempt is not over")
    _require(attempt is not None and not attempt.is_released, event, "already released")
    cost = event.usage.cost_microusd if event.usage else 0
    view = replace(view, cost_microusd=view.cost_microusd + cost)
    return _with_attempt(view, event.attempt, lambda a: replace(a, released_at_ms=at_ms, usage=event.usage))


@_apply.register
def _(event: OrphanEnded, view: JobView, at_ms: int) -> JobView:
    attempt = _find(view, event.attempt)
    _require(attempt is not None and attempt.is_released, event, "the attempt is not released")
    known = attempt is not None and event.usage in attempt.orphans
    _require(not known, event, "the cost of this machine is already in the ledger")
    view = replace(view, cost_microusd=view.cost_microusd + event.usage.cost_microusd)
    return _with_attempt(view, event.attempt, lambda a: replace(a, orphans=(*a.orphans, event.usage)))


@_apply.register
def _(event: MeterDiffered, view: JobView, at_ms: int) -> JobView:
    attempt = _find(view, event.attempt)
    _require(attempt is not None and attempt.is_released, event, "the attempt is not released")
    return _with_attempt(view, event.attempt, lambda a: replace(a, metered_microusd=event.theirs_microusd))


@_apply.register
def _(event: RecoveryStarted, view: JobView, at_ms: int) -> JobView:
    newest = view.newest_attempt
    _require(
        newest is not None and newest.number == event.attempt, event, "the attempt is not the newest one"
    )
    _require(newest is not None and newest.is_over, event, "the attempt is not over")
    _require(view.recovering_since_ms is None, event, "already recovering")
    view = _with_attempt(
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


@_apply.register
def _(event: JobCompleted, view: JobView, at_ms: int) -> JobView:
    return _end_job(event, view, at_ms, Status.COMPLETED)


@_apply.register
def _(event: JobFailed, view: JobView, at_ms: int) -> JobView:
    view = _with_attempt(view, len(view.attempts), lambda a: replace(a, failure=event.failure))
    return replace(_end_job(event, view, at_ms, Status.FAILED), failure=event.failure)


@_apply.register
def _(event: JobCancelled, view: JobView, at_ms: int) -> JobView:
    return _end_job(event, view, at_ms, Status.CANCELLED)


@_apply.register
def _(event: JobEdited, view: JobView, at_ms: int) -> JobView:
    return replace(
        view,
        name=view.name if event.name is None else event.name,
        edited_tags=view.edited_tags if event.tags is None else event.tags,
        notes=view.notes if event.notes is None else event.notes,
    )


@_apply.register
def _(event: JobDeleted, view: JobView, at_ms: int) -> JobView:
    _require(view.is_terminal, event, "the job has not ended")
    return view


def _end_job(event: Event, view: JobView, at_ms: int, status: Status) -> JobView:
    assert isinstance(event, TERMINAL)
    left = [a.number for a in view.attempts if not a.is_released]
    _require(not left, event, f"attempts {left} are not released")
    return replace(view, status=status, phase=Phase.ENDED, reason="", ended_at_ms=at_ms)


def _with_checkpoints(view: JobView, checkpoints: tuple[CheckpointRef, ...]) -> JobView:
    """Return the job's state with the newest of these checkpoints.

    The ids of the checkpoints that are dropped are kept for a while, to recognise repeated commits.
    """
    surplus = max(0, len(checkpoints) - max(1, view.spec.checkpoint.keep))
    past = (*view.past_checkpoints, *(c.id for c in checkpoints[:surplus]))
    return replace(view, checkpoints=checkpoints[surplus:], past_checkpoints=past[-REMEMBERED:])


def _with_mark(attempt: AttemptView, mark: CheckpointMark) -> AttemptView:
    """Return the attempt with one more saved checkpoint.

    Only every second, fourth, … mark of many is kept, and the newest, so that the size of the view is bounded.
    """
    count = attempt.checkpoints_saved
    kept = _mark_numbers(count + 1)
    numbered = zip(_mark_numbers(count), attempt.checkpoint_marks, strict=True)
    marks = (*(earlier for number, earlier in numbered if number in kept), mark)
    return replace(attempt, checkpoints_saved=count + 1, checkpoint_marks=marks)


def _mark_numbers(count: int) -> list[int]:
    """Return which of `count` checkpoints, counted from 0, have a mark."""
    stride = 1
    while count > MAX_CHECKPOINT_MARKS * stride:
        stride *= 2
    numbers = list(range(0, count, stride))
    return numbers if not count or numbers[-1] == count - 1 else [*numbers, count - 1]


def _find(view: JobView, number: int) -> AttemptView | None:
    return view.attempts[number - 1] if 1 <= number <= len(view.attempts) else None


def _require_live(event: Event, number: int, view: JobView) -> AttemptView:
    live = view.live_attempt
    if live is None or live.number != number:
        raise InvalidEvent(
            f"the job's state does not allow the event {type(event).__name__}: attempt {number} is not the one that is "
            "running"
        )
    return live


def _require_unknown_resume(event: Event, number: int, view: JobView) -> None:
    attempt = _require_live(event, number, view)
    _require(attempt.resume is not None, event, "the attempt started without a checkpoint")
    _require(attempt.resumed is None, event, "it is already recorded whether the attempt resumed")


def _require(holds: bool, event: Event, otherwise: str) -> None:
    if not holds:
        raise InvalidEvent(f"the job's state does not allow the event {type(event).__name__}: {otherwise}")


def _with_attempt(view: JobView, number: int, change: Callable[[AttemptView], AttemptView]) -> JobView:
    attempts = tuple(change(a) if a.number == number else a for a in view.attempts)
    return replace(view, attempts=attempts)
