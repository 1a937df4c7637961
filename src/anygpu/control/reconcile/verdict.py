"""Decide what the end of an attempt means for its job: complete, fail, cancel or retry. Pure functions."""

from dataclasses import dataclass, replace
from math import inf

from anygpu.control.policy import ControlPolicy
from anygpu.errors import BackendUnavailable, LaunchError
from anygpu.events.facts import (
    PLANNED_STOPS,
    SIGNAL_EXIT_CODES,
    Blame,
    CheckpointRef,
    Failure,
    MemoryUse,
    is_killed,
)
from anygpu.events.view import AttemptView, JobView
from anygpu.spec.sections import DEFAULT_RETRIES, Resources

GIB = 2**30
KILLED_CODE, OUT_OF_MEMORY_CODE = "killed", "out_of_memory"
SAME_TIME_S, SAME_TIME_FRACTION = 2.0, 0.2
OUT_OF_MEMORY_HINT = (
    "Request more memory (resources.memory, --memory), or use a smaller batch size or fewer data "
    "loader workers."
)


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
    """The job is started again in another attempt."""

    failure: Failure
    counts: bool


Verdict = Completed | Cancelled | Failed | Retry


def verdict(view: JobView, attempt: AttemptView) -> Verdict:
    """Return what the end of `attempt`, the newest one, means for the job."""
    if view.cancel_requested:
        return Cancelled()
    failure = failure_of(view, attempt)
    if failure is None:
        return Completed()
    if failure.blame in (Blame.USER, Blame.PLATFORM):
        return Failed(failure)
    # Handovers without progress count as retries; otherwise they could repeat forever.
    taken_back = failure.blame is Blame.PREEMPTION and failure.code != "handover"
    free = failure.code in FREE_CODES or is_outage(attempt) or taken_back
    counts = not (free or made_progress(view, attempt))
    if counts and view.retries_used >= view.spec.limits.max_retries:
        return Failed(failure)
    if counts and has_failed_before(view, attempt, failure):
        return Failed(
            replace(
                failure,
                message=f"{failure.message}; the job is not tried again, because it failed twice at the same point",
            )
        )
    return Retry(failure, counts)


def has_failed_before(view: JobView, attempt: AttemptView, failure: Failure) -> bool:
    """Return whether the attempt before was killed in the same way at the same point.

    Jobs that ask for more retries than usual are not checked.
    """
    unusual = view.spec.limits.max_retries > DEFAULT_RETRIES
    if failure.code not in (KILLED_CODE, OUT_OF_MEMORY_CODE) or attempt.number < 2 or unusual:
        return False
    before = view.attempts[attempt.number - 2]
    earlier = failure_of(view, before)
    same_kill = (before.signal, before.exit_code) == (attempt.signal, attempt.exit_code)
    return (
        earlier is not None and earlier.code == failure.code and same_kill and _is_same_point(before, attempt)
    )


def _is_same_point(before: AttemptView, attempt: AttemptView) -> bool:
    """Return whether two attempts ended at the same step or, without steps, after about the same time."""
    if before.step is not None or attempt.step is not None:
        return before.step == attempt.step
    first_s, second_s = _trained_s(before), _trained_s(attempt)
    return abs(first_s - second_s) <= max(SAME_TIME_S, SAME_TIME_FRACTION * first_s)


def _trained_s(attempt: AttemptView) -> float:
    if attempt.training_at_ms is None or attempt.ended_at_ms is None:
        return 0.0
    return (attempt.ended_at_ms - attempt.training_at_ms) / 1000


MIGRATION_REASON = "cheaper"  # also when a job with a deadline moves from on-demand to spot
# Failures that do not use up a retry.
FREE_CODES = {"no_capacity", "quota", "credentials_refused", "cluster_access", "migrate"}
OUTAGE_CODE = BackendUnavailable.code
LAUNCH_UNKNOWN_CODE = "launch_unknown"  # every request to launch had an unknown outcome


def launch_failure(error: LaunchError) -> Failure:
    """Return why a backend did not launch an attempt.

    All errors that mean that the backend cannot be reached get the same code, so that `is_outage` recognises them.
    """
    code = OUTAGE_CODE if isinstance(error, BackendUnavailable) else error.code
    return Failure(code=code, message=str(error), blame=Blame.LAUNCH)


def is_outage(attempt: AttemptView) -> bool:
    """Return whether the attempt was not launched because its backend could not be reached or did not answer.

    False if the backend accepted the launch, or may have rented a machine: a machine that cannot be reached later may
    have cost money, so its failure counts as a retry.
    """
    if attempt.lost is None or attempt.handle is not None or attempt.claimant is not None:
        return False
    may_have_cost = attempt.offer.is_rented
    return attempt.lost.code == OUTAGE_CODE or (
        attempt.lost.code == LAUNCH_UNKNOWN_CODE and not may_have_cost
    )


def failure_of(view: JobView, attempt: AttemptView) -> Failure | None:
    """Return the failure of an ended attempt of a job, or None if the attempt succeeded."""
    if attempt.lost is not None:
        return attempt.lost
    if attempt.outcome == "exited":
        return _exit_failure(attempt, view.spec.resources)
    if attempt.outcome == "stopped":
        return _stop_failure(attempt)
    if attempt.outcome == "timeout":
        return Failure(
            code="timeout",
            message=attempt.message
            or "the job ran longer than its time limit; resume it with a longer one "
            "(anygpu resume --set limits.timeout=...)",
            blame=Blame.PLATFORM,
        )
    if attempt.outcome == "failed_to_start":
        return Failure(code="failed_to_start", message=attempt.message, blame=Blame.USER)
    message = attempt.message or f"the agent reported the outcome {attempt.outcome}"
    return Failure(code=attempt.outcome or "unknown", message=message, blame=Blame.INFRASTRUCTURE)


def _exit_failure(attempt: AttemptView, need: Resources) -> Failure | None:
    if attempt.exit_code == 0:
        return None
    killed = is_killed(attempt.exit_code, attempt.signal)
    number = attempt.signal or (attempt.exit_code or SIGNAL_EXIT_CODES) - SIGNAL_EXIT_CODES
    if attempt.memory is not None and attempt.memory.oom_killed:
        what = (
            f"the process was killed by signal {number}{_node_text(attempt)}"
            if killed
            else _exit_text(attempt)
        )
        text = f"{what}{_memory_text(attempt.memory)}; the kernel reports an out-of-memory kill"
        blame = Blame.USER
        if not _exceeded_own_memory(attempt.memory, need):
            text, blame = f"{text}, because the machine ran out of memory", Blame.INFRASTRUCTURE
        return Failure(code=OUT_OF_MEMORY_CODE, message=f"{text}. {OUT_OF_MEMORY_HINT}", blame=blame)
    if killed:
        text = f"the process was killed by signal {number}{_node_text(attempt)}{_memory_text(attempt.memory)}"
        return Failure(code=KILLED_CODE, message=text, blame=Blame.INFRASTRUCTURE)
    code = "exit_code" if attempt.signal is None else "crashed"
    return Failure(code=code, message=_exit_text(attempt), blame=Blame.USER)


def _exit_text(attempt: AttemptView) -> str:
    if attempt.signal is not None:
        return f"the process was ended by signal {attempt.signal}{_node_text(attempt)}"
    return f"the script exited with code {attempt.exit_code}{_node_text(attempt)}"


def _node_text(attempt: AttemptView) -> str:
    """Return which node of an attempt on several nodes ended like the attempt; empty for one machine."""
    end = attempt.outcome, attempt.exit_code, attempt.signal
    ends = [(node.outcome, node.exit_code, node.signal) for node in attempt.nodes]
    return f" on node {ends.index(end)}" if end in ends else ""


def _exceeded_own_memory(memory: MemoryUse, need: Resources) -> bool:
    """Return whether the job used more memory than it may, rather than the machine running out of it.

    It may use what the limit of its cgroup allows. Not every backend sets one, so what it requested counts too.
    """
    if memory.machine_bytes is None:  # of an older agent
        return True
    has_own_limit = memory.limit_bytes is not None and memory.limit_bytes < memory.machine_bytes
    requested = (need.memory_gib or inf) * GIB
    return has_own_limit or (memory.peak_bytes or 0) > requested


def _memory_text(memory: MemoryUse | None) -> str:
    """Return how much memory the job used, as the continuation of a sentence; empty if it is not known."""
    if memory is None or not memory.peak_bytes:
        return ""
    peak = f"{memory.peak_bytes / GIB:.1f}"
    limit = f" of {memory.limit_bytes / GIB:.1f}" if memory.limit_bytes else ""
    return f"; its memory peaked at {peak}{limit} GiB"


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
