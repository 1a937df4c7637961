"""Pros and cons of a place in a plan, a sentence each, from its numbers."""

from typing import NamedTuple

from anygpu.events.facts import MICROUSD
from anygpu.plan.bill import Bill, Span
from anygpu.plan.credit import from_pocket
from anygpu.plan.places import Place

SOON_S = 20.0


class Best(NamedTuple):
    """The best there is among the places that will do, each by itself."""

    wall_s: float
    cost_microusd: int
    paid_microusd: int  # of those that cost anything


def pros(place: Place, found: Bill, best: Best) -> tuple[str, ...]:
    offer = place.offer
    credit = place.credit_microusd
    said = (
        (_pocket(found.cost_microusd, credit), offer.paid and credit > 0),
        ("nothing to pay", not offer.paid),
        ("cheapest to finish", offer.paid and found.cost_microusd.expected == best.cost_microusd),
        ("done first", found.wall_s.expected == best.wall_s),
        ("starts within seconds", place.boot_s <= SOON_S),
        ("never interrupted", offer.paid and not offer.interruptible),
    )
    return tuple(words for words, true in said if true)


def cons(place: Place, found: Bill, best: Best, *, idle_gpus: bool) -> tuple[str, ...]:
    offer = place.offer
    times = found.cost_microusd.expected / max(1, best.paid_microusd) if offer.paid else 0.0
    slower = found.wall_s.expected / best.wall_s
    said = (
        (f"may be interrupted, which adds about {_minutes(found.saving_s)}", offer.interruptible),
        (f"{times:.1f} times the price of the cheapest", times >= 1.5),
        (f"takes {slower:.1f} times as long as the fastest", slower >= 2),
        (f"takes {found.runs} runs: one may last {spoken(offer.longest_s)} at most", found.runs > 1),
        (
            f"a run may last {spoken(offer.longest_s)} at most, and nothing shows that the job can resume",
            found.runs == 1 and found.wall_s.expected > offer.longest_s,
        ),
        (f"its price is {place.stale_days} days old", bool(place.stale_days)),
        ("pays for GPUs the code does not use", idle_gpus),
    )
    return tuple(words for words, true in said if true)


def spoken(seconds: float) -> str:
    """A time in round figures."""
    for unit, size_s in (("days", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size_s:
            return f"{seconds / size_s:.3g} {unit}"
    return f"{seconds:.0f} s"


def _pocket(cost_microusd: Span, credit_microusd: int) -> str:
    """What of the cost is money, as expected and at worst."""
    pays, at_worst = (
        f"${from_pocket(cost, credit_microusd) / MICROUSD:,.2f}"
        for cost in (cost_microusd.expected, cost_microusd.high)
    )
    worse = f" (to {at_worst})" if at_worst != pays else ""
    return f"{pays}{worse} from your pocket, after ${credit_microusd / MICROUSD:,.2f} of credit"


def _minutes(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h" if seconds >= 5400 else f"{max(1, round(seconds / 60))} min"
