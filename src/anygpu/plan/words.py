"""Pros and cons of a place in a plan, a sentence each, from its numbers."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anygpu.plan.planner import Line

SOON_S = 20.0


def pros(line: "Line", fit: Sequence["Line"]) -> tuple[str, ...]:
    offer, found = line.place.offer, line.bill
    quickest = min(other.bill.wall_s.expected for other in fit)
    cheapest = min(other.bill.cost_microusd.expected for other in fit)
    said = (
        ("nothing to pay", not offer.paid),
        ("cheapest to finish", offer.paid and found.cost_microusd.expected == cheapest),
        ("done first", found.wall_s.expected == quickest),
        ("starts within seconds", line.place.boot_s <= SOON_S),
        ("never interrupted", offer.paid and not offer.interruptible),
    )
    return tuple(words for words, true in said if true)


def cons(line: "Line", fit: Sequence["Line"]) -> tuple[str, ...]:
    offer, found = line.place.offer, line.bill
    quickest = min(other.bill.wall_s.expected for other in fit)
    costs = [other.bill.cost_microusd.expected for other in fit if other.place.offer.paid]
    times = found.cost_microusd.expected / max(1, min(costs)) if costs and offer.paid else 0.0
    slower = found.wall_s.expected / quickest
    said = (
        (f"may be interrupted, which adds about {_minutes(found.saving_s)}", offer.interruptible),
        (f"{times:.1f} times the price of the cheapest", times >= 1.5),
        (f"takes {slower:.1f} times as long as the fastest", slower >= 2),
        (f"its price is {line.place.stale_days} days old", bool(line.place.stale_days)),
        ("pays for GPUs the code does not use", line.idle_gpus),
        ("not configured: anygpu backend add", offer.paid and not line.place.own),
    )
    return tuple(words for words, true in said if true)


def _minutes(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h" if seconds >= 5400 else f"{max(1, round(seconds / 60))} min"
