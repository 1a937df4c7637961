"""Describe the advantages and disadvantages of a candidate in words, for the user."""

from math import inf
from typing import NamedTuple

from anygpu.events.offers import MICROUSD
from anygpu.plan.offers.availability import missing_step
from anygpu.plan.offers.bill import Bill, Span, out_of_pocket_cost
from anygpu.plan.offers.candidates import Candidate

FAST_START_S = 20.0


class BestValues(NamedTuple):
    """The shortest time and the lowest costs among all candidates that fit."""

    wall_s: float
    cost_microusd: int
    lowest_paid_microusd: int  # among candidates that cost money


def pros(candidate: Candidate, bill: Bill, best: BestValues) -> tuple[str, ...]:
    offer = candidate.offer
    credit = candidate.credit_microusd
    statements = (
        (_out_of_pocket_text(bill.cost_microusd, credit), offer.is_paid and credit > 0),
        ("nothing to pay", not offer.is_paid),
        ("cheapest to finish", offer.is_paid and bill.cost_microusd.expected == best.cost_microusd),
        ("finishes first", bill.wall_s.expected == best.wall_s),
        ("starts within seconds", candidate.boot_s <= FAST_START_S),
        ("never interrupted", offer.is_paid and not offer.interruptible),
    )
    return tuple(text for text, true in statements if true)


def cons(
    candidate: Candidate,
    bill: Bill,
    best: BestValues,
    *,
    idle_gpus: bool,
    needs_consent: bool,
    doubt: str,
    nodes_reason: str = "",
) -> tuple[str, ...]:
    offer = candidate.offer
    price_ratio = bill.cost_microusd.expected / max(1, best.lowest_paid_microusd) if offer.is_paid else 0.0
    slower = bill.wall_s.expected / best.wall_s
    missing = missing_step(candidate, needs_consent=needs_consent)
    statements = (
        (missing, bool(missing)),
        (f"its price is of {candidate.price_date}", candidate.has_old_price),
        (doubt, bool(doubt)),
        (nodes_reason, bool(nodes_reason)),
        (
            f"may be interrupted, which adds about {_hours_or_minutes(bill.interruptions_s)}",
            offer.interruptible,
        ),
        (f"{price_ratio:.1f} times the cost of the cheapest paid offer", price_ratio >= 1.5),
        (f"takes {slower:.1f} times as long as the fastest offer", slower >= 2),
        (
            f"takes {bill.runs} runs, as one may last at most {describe_duration(offer.max_run_or_inf_s)}",
            bill.runs > 1,
        ),
        (
            f"a run may last at most {describe_duration(offer.max_run_or_inf_s)},"
            " and nothing shows that the job can resume",
            bill.runs == 1 and bill.wall_s.expected > offer.max_run_or_inf_s,
        ),
        (
            f"its price is {candidate.stale_days} days old",
            bool(candidate.stale_days) and not candidate.has_old_price,
        ),
        ("you pay for GPUs that the code does not use", idle_gpus and offer.is_paid),
    )
    return tuple(text for text, true in statements if true)


def describe_duration(seconds: float) -> str:
    """Return a duration as rounded text, such as `2 h 30 min`."""
    if seconds == inf:
        return "any time"
    if seconds >= 2 * 86_400:
        return _two_units(round(seconds / 3600), 24, "days", "h")
    if seconds >= 2 * 3600:
        return _two_units(round(seconds / 60), 60, "h", "min")
    if seconds >= 600:
        return f"{round(seconds / 60)} min"
    if seconds >= 120:
        return _two_units(round(seconds), 60, "min", "s")
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.2g} s"


def _two_units(count: int, per_large: int, large: str, small: str) -> str:
    """Return `count` small units as text in two units; the second one is left out if it is 0."""
    first, rest = divmod(count, per_large)
    return f"{first} {large} {rest} {small}" if rest else f"{first} {large}"


def _out_of_pocket_text(cost_microusd: Span, credit_microusd: int) -> str:
    """Return a text with the expected and the highest cost that the credit does not cover."""
    pays, at_worst = (
        f"${out_of_pocket_cost(cost, credit_microusd) / MICROUSD:,.2f}"
        for cost in (cost_microusd.expected, cost_microusd.high)
    )
    worse = f" (to {at_worst})" if at_worst != pays else ""
    return f"{pays}{worse} from your pocket, after ${credit_microusd / MICROUSD:,.2f} of credit"


def _hours_or_minutes(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h" if seconds >= 5400 else f"{max(1, round(seconds / 60))} min"
