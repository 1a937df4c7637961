"""Derive from a job's events how much training is saved and how much is left, and how long a start takes.

Pure functions.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import pairwise

from anygpu.control.policy import ControlPolicy
from anygpu.events.facts import FIRST_STEPS, CheckpointRef
from anygpu.events.view import AttemptView, JobView


def deadline_ms(view: JobView) -> int | None:
    """Return the deadline of the job in unix milliseconds, or None if the job has no deadline."""
    submitted_at = datetime.fromtimestamp(view.submitted_at_ms / 1000, UTC)
    until = view.spec.limits.deadline_from(submitted_at)
    return None if until is None else round(until.timestamp() * 1000)


def expected_training_s(view: JobView) -> float | None:
    """Return the training time of the whole job, or None if unknown.

    A duration stated in the spec is preferred to a prediction; once the job has measured its own steps, the
    longer of the two is returned.
    """
    said, told = view.spec.placement.expected_duration_s, view.prediction
    if told is None or (said is not None and told.basis != FIRST_STEPS):
        return said
    if told.basis == "nothing":
        return None
    return told.wall_high_s if said is None else max(said, told.wall_high_s)


def remaining_s(view: JobView, whole_s: float) -> float:
    """Return the training time left after the newest checkpoint.

    If the job has already trained longer than `whole_s`, the time left is assumed to equal the excess.
    """
    return abs(whole_s - trained_s(view, view.newest_checkpoint))


def trained_s(view: JobView, checkpoint: CheckpointRef | None) -> float:
    """Return the training time up to a checkpoint, summed over all attempts that led to the checkpoint."""
    held_ms, before = 0, len(view.attempts) + 1
    while checkpoint is not None and checkpoint.attempt < before:
        attempt, before = view.attempts[checkpoint.attempt - 1], checkpoint.attempt
        if attempt.training_at_ms is not None:
            held_ms += max(0, checkpoint.saved_at_ms - attempt.training_at_ms)
        checkpoint = None if attempt.resumed is False else attempt.resume
    return held_ms / 1000


def used_time_s(attempts: Iterable[AttemptView], now_ms: int) -> float:
    """Return how much of the job's time limit these attempts have used.

    All training time counts, whether saved in a checkpoint or not.
    """
    trained_ms = (
        (now_ms if attempt.ended_at_ms is None else attempt.ended_at_ms) - attempt.training_at_ms
        for attempt in attempts
        if attempt.training_at_ms is not None
    )
    return max(0, sum(trained_ms)) / 1000


def unsaved_s(view: JobView, now_ms: int) -> float:
    """Return how long the current attempt has trained since its last checkpoint."""
    live = view.live_attempt
    if live is None or live.training_at_ms is None:
        return 0.0
    return max(0, now_ms - _saved_ms(view, live)) / 1000


def checkpoint_interval_s(view: JobView) -> float:
    """Return the longest interval between two consecutive kept checkpoints of the same attempt.

    If there is no such pair, return the interval in the spec.
    """
    gaps = [
        (later.saved_at_ms - earlier.saved_at_ms) / 1000
        for earlier, later in pairwise(view.checkpoints)
        if earlier.attempt == later.attempt
    ]
    return max(gaps, default=view.spec.checkpoint.every_s)


def startup_s(view: JobView, policy: ControlPolicy) -> float:
    """Return the longest time from launch to training among the job's paid attempts.

    If none of them has trained yet, return the limit for a launch.
    """
    observed = [
        (attempt.training_at_ms - attempt.launching_at_ms) / 1000
        for attempt in view.attempts
        if attempt.training_at_ms is not None and attempt.offer.is_paid
    ]
    return max(observed, default=policy.claim_limit_s)


def _saved_ms(view: JobView, attempt: AttemptView) -> int:
    newest = view.newest_checkpoint
    own = newest.saved_at_ms if newest is not None and newest.attempt == attempt.number else 0
    return max(own, attempt.training_at_ms or 0)
