"""Who is next. Pure: the order of waiting jobs and their positions."""

from collections.abc import Iterable, Mapping, Sequence

from anygpu.control.policy import Policy
from anygpu.events.view import JobView


def wants_a_place(view: JobView) -> bool:
    """Nothing runs for it, and nothing forbids that something does."""
    if view.terminal or view.cancel_requested or view.live_attempt is not None:
        return False
    return view.attempt is None or view.recovering_since_ms is not None


def in_order(views: Iterable[JobView], now_ms: int, policy: Policy) -> list[JobView]:
    """Highest priority first, aged by waiting so that nobody starves, then the order of submission."""

    def key(view: JobView) -> tuple[float, int, str]:
        return -effective_priority(view, now_ms, policy), view.submitted_at_ms, view.id

    return sorted((v for v in views if wants_a_place(v)), key=key)


def effective_priority(view: JobView, now_ms: int, policy: Policy) -> float:
    waited_s = max(0, now_ms - view.submitted_at_ms) / 1000
    return view.spec.priority + waited_s // policy.aging_s


def is_impatient(view: JobView, now_ms: int, policy: Policy) -> bool:
    """It waited so long that nobody behind it may take what it waits for."""
    return now_ms - view.submitted_at_ms > policy.patience_s * 1000


def queue_positions(ordered: Sequence[JobView]) -> Mapping[str, int]:
    return {view.id: place for place, view in enumerate(ordered, start=1)}
