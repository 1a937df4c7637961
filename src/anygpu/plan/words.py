"""Pros and cons of a place in a plan, a sentence each, from its numbers."""

from typing import NamedTuple

from anygpu.plan.bill import Bill
from anygpu.plan.places import Place

SOON_S = 20.0


class Best(NamedTuple):
    """The best there is among the places that will do, each by itself."""

    wall_s: float
    cost_microusd: int
    paid_microusd: int  # of those that cost anything


def pros(place: Place, found: Bill, best: Best) -> tuple[str, ...]:
    offer = place.offer
    said = (
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
        (f"its price is {place.stale_days} days old", bool(place.stale_days)),
        ("pays for GPUs the code does not use", idle_gpus),
    )
    return tuple(words for words, true in said if true)


def _minutes(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h" if seconds >= 5400 else f"{max(1, round(seconds / 60))} min"
