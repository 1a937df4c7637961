"""Who waits, and for how long. Pure; `pool.py` has the order."""

from anygpu.control.policy import Policy
from anygpu.events.view import JobView


def wants_a_place(view: JobView) -> bool:
    """Nothing runs for it, and nothing forbids that something does."""
    if view.terminal or view.cancel_requested or view.live_attempt is not None:
        return False
    return view.attempt is None or view.recovering_since_ms is not None


def waiting_since_ms(view: JobView) -> int:
    """Since it last trained; a launch that came to nothing does not put it back."""
    if not view.attempts:
        return view.submitted_at_ms
    ends = [
        a.ended_at_ms for a in view.attempts if a.training_at_ms is not None and a.ended_at_ms is not None
    ]
    return max(ends, default=view.submitted_at_ms)


def is_impatient(view: JobView, now_ms: int, policy: Policy) -> bool:
    """It waited so long that nobody behind it may take what it waits for."""
    return now_ms - waiting_since_ms(view) > policy.patience_s * 1000
