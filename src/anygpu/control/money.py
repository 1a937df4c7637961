"""What attempts cost. Pure, in whole micro-dollars; docs/money.md tells the rules.

The ledger is what the journal holds of released attempts. What runs is estimated on the safe side: from the first
moment that may be billed, until it is known to have ended.
"""

from collections.abc import Mapping
from dataclasses import replace

from anygpu.backends.contract import Interval, Observation
from anygpu.events.facts import MICROUSD, Billing, Usage
from anygpu.events.view import AttemptView, JobView


def usage_of(attempt: AttemptView, observation: Observation | None, now_ms: int) -> Usage | None:
    """What a released attempt is charged for; None when there was no machine, or it costs nothing."""
    began_ms, price = _began_ms(attempt, observation), _price(attempt, observation)
    if not price or began_ms is None:
        return None
    ended_ms = observation.ended_at_ms if observation else None
    first = Interval(started_at_ms=began_ms, ended_at_ms=ended_ms, price_microusd_per_hour=price)
    spans = [first, *(observation.twins if observation else ())]
    return Usage(
        started_at_ms=min(span.started_at_ms for span in spans),
        ended_at_ms=max(max(span.started_at_ms, _end_ms(span, now_ms)) for span in spans),
        cost_microusd=sum(_interval_cost(attempt.offer.billing, span, price, now_ms) for span in spans),
        source="provider" if _provider_said(attempt, observation) else "observed",
    )


def orphan_usage(attempt: AttemptView, observation: Observation, now_ms: int) -> Usage | None:
    """What machines of an attempt's name cost in all beyond what the ledger has; None when that is nothing."""
    exact = observation.started_at_ms is not None and observation.ended_at_ms is not None
    usage = usage_of(attempt, observation, now_ms) if exact else None
    more = 0 if usage is None else usage.cost_microusd - attempt.cost_microusd
    return None if usage is None or more <= 0 else replace(usage, cost_microusd=more)


def accrued(attempt: AttemptView, billed_s: float) -> int:
    """What an attempt that is not released has cost after so many seconds; nothing while no machine was seen."""
    if not attempt.price or not _was_there(attempt):
        return 0
    return attempt.offer.billing.cost_microusd(attempt.price, int(max(0.0, billed_s)) + 1)


def spent(view: JobView, billed_s: Mapping[int, float], *, ahead_s: float = 0) -> int:
    """The ledger and what runs: now, or as it will be in `ahead_s` seconds."""
    running = (a for a in view.attempts if not a.released)
    return view.cost_microusd + sum(accrued(a, billed_s.get(a.number, 0.0) + ahead_s) for a in running)


def spent_at(view: JobView, now_ms: int) -> int:
    """As `spent`, by the wall clock: for people, and before a launch."""
    ages = {a.number: (now_ms - (a.started_at_ms or a.launching_at_ms)) / 1000 for a in view.attempts}
    return spent(view, ages)


def in_dollars(microusd: int) -> str:
    """For people: cents, and more digits where cents would say nothing."""
    return (
        f"${microusd / MICROUSD:,.2f}" if abs(microusd) >= MICROUSD // 10 else f"${microusd / MICROUSD:.4f}"
    )


def _began_ms(attempt: AttemptView, observation: Observation | None) -> int | None:
    """By the provider's clock, else from the moment a machine may have been there."""
    if observation is not None and observation.started_at_ms is not None:
        return observation.started_at_ms
    if attempt.started_at_ms is not None:
        return attempt.started_at_ms
    return attempt.launching_at_ms if _was_there(attempt) else None


def _was_there(attempt: AttemptView) -> bool:
    return attempt.handle is not None or attempt.claimant is not None or attempt.started_at_ms is not None


def _provider_said(attempt: AttemptView, observation: Observation | None) -> bool:
    if observation is None or observation.ended_at_ms is None:
        return False
    return attempt.started_at_ms is not None or observation.started_at_ms is not None


def _price(attempt: AttemptView, observation: Observation | None) -> int:
    said = observation.price_microusd_per_hour if observation else None
    return attempt.price if said is None else said


def _interval_cost(billing: Billing, span: Interval, price: int, now_ms: int) -> int:
    """Providers show and charge whole seconds of their clock."""
    used_s = _end_ms(span, now_ms) // 1000 - span.started_at_ms // 1000
    own = span.price_microusd_per_hour
    return billing.cost_microusd(price if own is None else own, used_s)


def _end_ms(span: Interval, now_ms: int) -> int:
    return now_ms if span.ended_at_ms is None else span.ended_at_ms
