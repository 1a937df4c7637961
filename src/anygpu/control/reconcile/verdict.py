"""Decide what the end of an attempt means for its job: complete, fail, cancel or retry. Pure functions."""

from dataclasses import dataclass

from anygpu.control.policy import ControlPolicy
from anygpu.events.facts import Blame, CheckpointRef, Failure
from anygpu.events.view import AttemptView, JobView

SIGKILL, SIGTERM = 9, 15
KILLED = {SIGKILL, SIGTERM}
KILLED_EXIT_CODES = {128 + SIGKILL, 128 + SIGTERM}  # exit codes with which a shell reports these signals


@dataclass(frozen=True, slots=True)
class Completed:
    """The job has succeeded."""


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The job ends because a user cancelled it."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The job has failed."""

    failure: Failure


@dataclass(frozen=True, slots=True)
class Retry:
    """The job continues in another attempt."""

    failure: Failure
    counts: bool


Verdict = Completed | Cancelled | Failed | Retry


def verdict(view: JobView, attempt: AttemptView) -> Verdict:
    """Return what the end of `attempt`, the newest one, means for the job."""
    if view.cancel_requested:
        return Cancelled()
    failure = failure_of(attempt)
    if failure is None:
        return Completed()
    if failure.blame in (Blame.USER, Blame.PLATFORM):
        return Failed(failure)
    # Handovers without progress count as retries; otherwise they could repeat forever.
    taken_back = failure.blame is Blame.PREEMPTION and failure.code != "handover"
    counts = not (failure.code in FREE_CODES or taken_back or made_progress(view, attempt))
    if counts and view.retries_used >= view.spec.limits.max_retries:
        return Failed(failure)
    return Retry(failure, counts)


MIGRATION_REASON = "cheaper"  # also when a job with a deadline moves from on-demand to spot
PLANNED_STOPS = {"migrate", "handover", "deadline", "cheaper"}  # stops after which the job moves
FREE_CODES = {"no_capacity", "quota", "credentials_refused", "migrate"}  # failures that do not use up a retry


def failure_of(attempt: AttemptView) -> Failure | None:
    """Return the failure of an ended attempt, or None if the attempt succeeded."""
    if attempt.lost is not None:
        return attempt.lost
    if attempt.outcome == "exited":
        return _exit_failure(attempt)
    if attempt.outcome == "stopped":
        return _stop_failure(attempt)
    if attempt.outcome == "timeout":
        return Failure(
            code="timeout", message=attempt.message or "the job exceeded its time limit", blame=Blame.PLATFORM
        )
    if attempt.outcome == "failed_to_start":
        return Failure(code="failed_to_start", message=attempt.message, blame=Blame.USER)
    message = attempt.message or f"the agent reported the outcome {attempt.outcome}"
    return Failure(code=attempt.outcome or "unknown", message=message, blame=Blame.INFRASTRUCTURE)


def _exit_failure(attempt: AttemptView) -> Failure | None:
    if attempt.exit_code == 0:
        return None
    if attempt.signal in KILLED or attempt.exit_code in KILLED_EXIT_CODES:
        text = f"the process was killed (signal {attempt.signal or (attempt.exit_code or 128) - 128})"
        return Failure(code="killed", message=text, blame=Blame.INFRASTRUCTURE)
    if attempt.signal is not None:
        text = f"the process was ended by signal {attempt.signal}"
        return Failure(code="crashed", message=text, blame=Blame.USER)
    text = f"the script exited with code {attempt.exit_code}"
    return Failure(code="exit_code", message=text, blame=Blame.USER)


def _stop_failure(attempt: AttemptView) -> Failure:
    """Return the failure of a stopped attempt.

    If nobody requested the stop, its machine announced a preemption.
    """
    reason = attempt.stop_reason or "preempt"
    message = attempt.stop_message or attempt.message or f"stopped: {reason}"
    return Failure(code=reason, message=message, blame=blame_for_stop(reason))


def blame_for_stop(reason: str) -> Blame:
    return Blame.PREEMPTION if reason == "preempt" or reason in PLANNED_STOPS else Blame.PLATFORM


def made_progress(view: JobView, attempt: AttemptView) -> bool:
    """Return whether the attempt published a checkpoint later than the one it started from.

    Checkpoints of a job that starts from the beginning after each interruption are no progress.
    """
    newest = view.newest_checkpoint
    if view.resumed is False:
        return False
    if newest is None or newest.attempt != attempt.number:
        return False
    return attempt.resume is None or newest.step > attempt.resume.step


def retry_delay_s(view: JobView, failure: Failure, policy: ControlPolicy, jitter: float) -> float:
    """Return the delay before the next attempt in seconds.

    The delay is zero if the attempt made progress, and after a refused launch or a preemption, because that
    offer gets a cooldown and another offer is tried. Otherwise the delay grows exponentially with the number
    of consecutive attempts without progress.
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
    """Return the training time of the attempt that is not saved in a checkpoint."""
    if attempt.training_at_ms is None or attempt.ended_at_ms is None:
        return 0.0
    newest = view.newest_checkpoint
    saved_ms = newest.saved_at_ms if newest is not None and newest.attempt == attempt.number else 0
    return max(0, attempt.ended_at_ms - max(saved_ms, attempt.training_at_ms)) / 1000


def resume_point(view: JobView) -> CheckpointRef | None:
    return view.newest_checkpoint
