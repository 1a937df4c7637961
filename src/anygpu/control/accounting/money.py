"""Calculate what attempts cost and what a job may still spend, in micro-dollars. Pure functions.

The rules are in docs/explanation/money.md. The ledger is the recorded cost of attempts whose machines are confirmed to
be gone. The cost of running attempts is estimated and never too low: billing is assumed from the first moment at which
a machine may have existed until its end is confirmed.
"""

from collections.abc import Mapping
from dataclasses import replace

from anygpu.backends.contract import BilledInterval, Observation
from anygpu.events.costs import has_machine
from anygpu.events.facts import Blame, Failure, Usage
from anygpu.events.offers import MICROUSD, Billing
from anygpu.events.view import AttemptView, JobView


def usage_of(attempt: AttemptView, observation: Observation | None, now_ms: int) -> Usage | None:
    """Return the billed time and cost of an attempt whose machine is gone; None if it had no machine or was free."""
    began_ms, price = _billing_start_ms(attempt, observation), _price(attempt, observation)
    if not price or began_ms is None:
        return None
    ended_ms = observation.ended_at_ms if observation else None
    first = BilledInterval(started_at_ms=began_ms, ended_at_ms=ended_ms, price_microusd_per_hour=price)
    spans = [*_node_intervals(attempt, first, observation), *(observation.duplicates if observation else ())]
    return Usage(
        started_at_ms=min(span.started_at_ms for span in spans),
        ended_at_ms=max(max(span.started_at_ms, _end_ms(span, now_ms)) for span in spans),
        cost_microusd=sum(_interval_cost(attempt.offer.billing, span, price, now_ms) for span in spans),
        source="provider" if _has_provider_interval(attempt, observation) else "observed",
    )


def _node_intervals(
    attempt: AttemptView, first: BilledInterval, observation: Observation | None
) -> list[BilledInterval]:
    """Return the billed interval of every node. Without reports about single nodes, all have that of node 0."""
    others = observation.nodes if observation else None
    return [first] * attempt.node_count if others is None else [first, *others]


def orphan_usage(attempt: AttemptView, observation: Observation, now_ms: int) -> Usage | None:
    """Return the billed time and cost of machines with the attempt's name that are not recorded yet.

    None if no cost is missing, or if the provider has not reported when the machines started and ended.
    """
    exact = observation.started_at_ms is not None and observation.ended_at_ms is not None
    usage = usage_of(attempt, observation, now_ms) if exact else None
    more = 0 if usage is None else usage.cost_microusd - attempt.cost_microusd
    return None if usage is None or more <= 0 else replace(usage, cost_microusd=more)


def running_cost(attempt: AttemptView, billed_s: float) -> int:
    """Estimate what an attempt has cost after `billed_s` seconds, while its machine is not confirmed to be gone.

    Zero until a machine of the attempt was seen.
    """
    if not attempt.hourly_microusd or not has_machine(attempt):
        return 0
    price, used_s = attempt.node_hourly_microusd, int(max(0.0, billed_s)) + 1
    return attempt.offer.billing.cost_microusd(price, used_s) * attempt.node_count


def cost_so_far(view: JobView, billed_s: Mapping[int, float], *, ahead_s: float = 0) -> int:
    """Return the cost of the job, now or in `ahead_s` seconds: recorded costs plus those of running attempts."""
    running = (a for a in view.attempts if not a.is_released)
    return view.cost_microusd + sum(running_cost(a, billed_s.get(a.number, 0.0) + ahead_s) for a in running)


def cost_at(view: JobView, now_ms: int) -> int:
    """Return the job's cost at the wall-clock time `now_ms`. For display, and for the check before a launch."""
    ages = {a.number: (now_ms - (a.started_at_ms or a.launching_at_ms)) / 1000 for a in view.attempts}
    return cost_so_far(view, ages)


def format_dollars(microusd: int) -> str:
    """Format an amount in dollars with two decimals, or with four below ten cents."""
    return (
        f"${microusd / MICROUSD:,.2f}" if abs(microusd) >= MICROUSD // 10 else f"${microusd / MICROUSD:.4f}"
    )


def _billing_start_ms(attempt: AttemptView, observation: Observation | None) -> int | None:
    """Return when billing began by the provider's clock.

    If the provider has not reported that time, return the time of the launch, or None if no machine was seen.
    """
    if observation is not None and observation.started_at_ms is not None:
        return observation.started_at_ms
    if attempt.started_at_ms is not None:
        return attempt.started_at_ms
    return attempt.launching_at_ms if has_machine(attempt) else None


def _has_provider_interval(attempt: AttemptView, observation: Observation | None) -> bool:
    if observation is None or observation.ended_at_ms is None:
        return False
    return attempt.started_at_ms is not None or observation.started_at_ms is not None


def _price(attempt: AttemptView, observation: Observation | None) -> int:
    said = observation.price_microusd_per_hour if observation else None
    return attempt.node_hourly_microusd if said is None else said


def _interval_cost(billing: Billing, span: BilledInterval, price: int, now_ms: int) -> int:
    """Return the cost of one billed interval, in micro-dollars.

    Times are cut to whole seconds, as providers charge.
    """
    used_s = _end_ms(span, now_ms) // 1000 - span.started_at_ms // 1000
    own = span.price_microusd_per_hour
    return billing.cost_microusd(price if own is None else own, used_s)


def _end_ms(span: BilledInterval, now_ms: int) -> int:
    return now_ms if span.ended_at_ms is None else span.ended_at_ms


def is_over_budget(view: JobView, billed_s: Mapping[int, float], ahead_s: float) -> bool:
    """Return whether running for `ahead_s` more seconds would exceed the job's budget."""
    limit = view.spec.limits.max_cost_microusd
    return limit is not None and cost_so_far(view, billed_s, ahead_s=ahead_s) > limit


def remaining_budget(view: JobView, now_ms: int) -> int | None:
    """Return the part of the job's budget that is not spent, or None if the job has no budget."""
    limit = view.spec.limits.max_cost_microusd
    return None if limit is None else max(0, limit - cost_at(view, now_ms))


def budget_failure(view: JobView, cost_microusd: int) -> Failure:
    limit = view.spec.limits.max_cost_microusd or 0
    text = (
        f"the budget is used up: {format_dollars(cost_microusd)} of {format_dollars(limit)} spent; "
        "resume the job with a higher one (anygpu resume --set limits.max_cost=...)"
    )
    return Failure(code="budget", message=text, blame=Blame.PLATFORM)
