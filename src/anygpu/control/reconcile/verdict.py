"""What an attempt's end means for its job. Pure."""

from dataclasses import dataclass

from anygpu.control.policy import ControlPolicy
from anygpu.events.facts import Blame, CheckpointRef, Failure
from anygpu.events.view import AttemptView, JobView

SIGKILL, SIGTERM = 9, 15
KILLED = {SIGKILL, SIGTERM}
KILLED_EXIT_CODES = {128 + SIGKILL, 128 + SIGTERM}  # as a shell reports them


@dataclass(frozen=True, slots=True)
class Completed:
    """The job is done."""


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The job ends because somebody asked."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The job ends without its result."""

    failure: Failure


@dataclass(frozen=True, slots=True)
class Retry:
    """The job goes on in another attempt."""

    failure: Failure
    counts: bool


Verdict = Completed | Cancelled | Failed | Retry


def verdict(view: JobView, attempt: AttemptView) -> Verdict:
    """What follows from the newest attempt, which is over."""
    if view.cancel_requested:
        return Cancelled()
    failure = failure_of(attempt)
    if failure is None:
        return Completed()
    if failure.blame in (Blame.USER, Blame.PLATFORM):
        return Failed(failure)
    # A hand-over that brings the job no further would go on for ever.
    taken_back = failure.blame is Blame.PREEMPTION and failure.code != "handover"
    counts = not (failure.code in FREE_CODES or taken_back or made_progress(view, attempt))
    if counts and view.retries_used >= view.spec.limits.max_retries:
        return Failed(failure)
    return Retry(failure, counts)


PLANNED_STOPS = {"migrate", "handover", "deadline", "cheaper"}  # its machine was left, not taken back
FREE_CODES = {"no_capacity", "quota", "credentials_refused", "migrate"}  # the job waits, or goes elsewhere


def failure_of(attempt: AttemptView) -> Failure | None:
    """The failure an ended attempt speaks of; None when it succeeded."""
    if attempt.lost is not None:
        return attempt.lost
    if attempt.outcome == "exited":
        return _exit_failure(attempt)
    if attempt.outcome == "stopped":
        return _stop_failure(attempt)
    if attempt.outcome == "timeout":
        return Failure(
            code="timeout", message=attempt.message or "the time limit ran out", blame=Blame.PLATFORM
        )
    if attempt.outcome == "failed_to_start":
        return Failure(code="failed_to_start", message=attempt.message, blame=Blame.USER)
    message = attempt.message or f"the agent ended with {attempt.outcome}"
    return Failure(code=attempt.outcome or "unknown", message=message, blame=Blame.INFRASTRUCTURE)


def _exit_failure(attempt: AttemptView) -> Failure | None:
    if attempt.exit_code == 0:
        return None
    if attempt.signal in KILLED or attempt.exit_code in KILLED_EXIT_CODES:
        text = f"the process was killed (signal {attempt.signal or (attempt.exit_code or 128) - 128})"
        return Failure(code="killed", message=text, blame=Blame.INFRASTRUCTURE)
    if attempt.signal is not None:
        text = f"the process died of signal {attempt.signal}"
        return Failure(code="crashed", message=text, blame=Blame.USER)
    text = f"the script exited with code {attempt.exit_code}"
    return Failure(code="exit_code", message=text, blame=Blame.USER)


def _stop_failure(attempt: AttemptView) -> Failure:
    """An agent that stops though nobody asked it to was told by its machine, which is going away."""
    reason = attempt.stop_reason or "preempt"
    message = attempt.stop_message or attempt.message or f"stopped: {reason}"
    return Failure(code=reason, message=message, blame=blame_for_stop(reason))


def blame_for_stop(reason: str) -> Blame:
    return Blame.PREEMPTION if reason == "preempt" or reason in PLANNED_STOPS else Blame.PLATFORM


def made_progress(view: JobView, attempt: AttemptView) -> bool:
    """The attempt published a checkpoint beyond the one it started from."""
    newest = view.newest_checkpoint
    if newest is None or newest.attempt != attempt.number:
        return False
    return attempt.resume is None or newest.step > attempt.resume.step


def retry_delay_s(view: JobView, failure: Failure, policy: ControlPolicy, jitter: float) -> float:
    """None after an attempt that made progress; else exponential over those in a row that made none.

    After a refusal or a preemption it is the place that is left alone for a while; another is tried at once.
    """
    if failure.blame in (Blame.LAUNCH, Blame.PREEMPTION):
        return 0.0
    barren = 0
    for attempt in reversed(view.attempts):
        if attempt.training_at_ms is not None and made_progress(view, attempt):
            break
        barren += 1
    if barren == 0:
        return 0.0
    base = policy.retry_base_s * 2.0 ** min(barren - 1, 16)
    return min(policy.retry_max_s, base) * (0.5 + 0.5 * jitter)


def work_lost_s(view: JobView, attempt: AttemptView) -> float:
    """Training time that no checkpoint holds."""
    if attempt.training_at_ms is None or attempt.ended_at_ms is None:
        return 0.0
    newest = view.newest_checkpoint
    saved_ms = newest.saved_at_ms if newest is not None and newest.attempt == attempt.number else 0
    return max(0, attempt.ended_at_ms - max(saved_ms, attempt.training_at_ms)) / 1000


def resume_point(view: JobView) -> CheckpointRef | None:
    return view.newest_checkpoint
