"""A job's budget: when it is used up, and what is said then. Pure."""

from collections.abc import Mapping

from anygpu.control.money import in_dollars, spent, spent_at
from anygpu.events.facts import Blame, Failure
from anygpu.events.view import JobView


def is_over_budget(view: JobView, billed_s: Mapping[int, float], ahead_s: float) -> bool:
    """Whether going on for `ahead_s` more seconds would cost more than the job may."""
    limit = view.spec.limits.max_cost_microusd
    return limit is not None and spent(view, billed_s, ahead_s=ahead_s) > limit


def left_microusd(view: JobView, now_ms: int) -> int | None:
    """What a launch may still spend; None without a budget."""
    limit = view.spec.limits.max_cost_microusd
    return None if limit is None else max(0, limit - spent_at(view, now_ms))


def budget_failure(view: JobView, cost_microusd: int) -> Failure:
    limit = view.spec.limits.max_cost_microusd or 0
    text = f"the budget is used up: {in_dollars(cost_microusd)} of {in_dollars(limit)} spent"
    return Failure(code="budget", message=text, blame=Blame.PLATFORM)
