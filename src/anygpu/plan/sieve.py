"""Which places will do for a question, and why the others will not: asked once for what the answer holds of.

Most is settled for a family of kinds, the rest for a kind. Within a kind the cheaper hour is the cheaper run, so a
limit on the cost is found by bisection.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from anygpu.events.facts import HOUR_S
from anygpu.plan.bill import Stretch
from anygpu.plan.places import Alike, Family, Place, Places
from anygpu.plan.question import Question
from anygpu.plan.route import by_name, cramped


class Stay(NamedTuple):
    """What a job takes at a place: seconds until done, seconds charged, runs, and the price of what leaves."""

    wall_s: float
    billed_s: int
    runs: int
    egress_microusd: int

    def cost(self, price: float) -> float:
        """Not rounded, so that of two hours the cheaper one is never level."""
        return price * self.billed_s / HOUR_S + self.egress_microusd

    def within(self, limit_microusd: int, prices: Sequence[float]) -> int:
        """How many of these prices, which rise, make a bill that stays within a limit; bills are rounded half up."""
        limit = limit_microusd + 0.5
        return len(prices) if self.cost(prices[-1]) < limit else bisect_left(prices, limit, key=self.cost)


NO_STAY = Stay(0.0, 0, 1, 0)


class Group(NamedTuple):
    """Places of a family that will do, cheapest first, and what a run takes there."""

    place: Place  # stands for all of them
    numbers: Sequence[int]
    prices: Sequence[float]
    stay: Stay
    least: float  # the cheapest run

    @property
    def credit(self) -> int:
        return self.place.credit_microusd

    def costs(self, most: int | None = None) -> list[float]:
        """Of the first so many."""
        billed_s, egress = self.stay.billed_s, self.stay.egress_microusd
        return [price * billed_s / HOUR_S + egress for price in self.prices[:most]]


class Out(NamedTuple):
    """Places that will not do, for one reason."""

    reason: str
    numbers: Sequence[int]


class Sieve:
    """Goes through all places once. `groups`: those that will do; `out`: the others."""

    def __init__(self, question: Question, places: Places) -> None:
        self.groups: list[Group] = []
        self.out: list[Out] = []
        self._question, self._stays = question, _Stays(question)
        self._limit = question.spec.limits.max_cost_microusd
        self._need = need = question.spec.resources
        self._sized = bool(need.cpus or need.memory_gib or need.disk_gib)
        self._named = by_name(question.spec)
        for family in places.families:
            self._sift(family)

    def _sift(self, family: Family) -> None:
        question, place = self._question, family.place
        why_not = question.unsuited(place)
        stay = self._stays.at(place) if not why_not else NO_STAY
        why_not = why_not or question.cut_off(place, stay.wall_s, stay.runs) or question.late(stay.wall_s)
        if why_not:
            self.out.append(Out(why_not, family.whole.numbers))
            return
        for kind in family.kinds if self._sized else (family.whole,):
            if too_little := cramped(self._need, kind.place.offer):
                self.out.append(Out(too_little, kind.numbers))
            else:
                self._price(kind, stay)

    def _price(self, kind: Alike, stay: Stay) -> None:
        """Keeps those whose bill is within the job's limit."""
        numbers, prices = self._there(kind) if self._named else (kind.numbers, kind.prices)
        kept = len(numbers)
        if kept and self._limit is not None:
            kept = stay.within(self._limit, prices)
        if kept < len(numbers):
            self.out.append(Out(self._question.too_dear, numbers[kept:]))
            numbers, prices = numbers[:kept], prices[:kept]
        if kept:
            self.groups.append(Group(kind.place, numbers, prices, stay, stay.cost(prices[0])))

    def _there(self, kind: Alike) -> tuple[Sequence[int], Sequence[float]]:
        """Numbers and prices of those that the job asks for by name."""
        left: Sequence[int] = range(len(kind.numbers))
        for field, name, why_not in self._named:
            column = kind.wheres[field]
            others = [kind.numbers[at] for at in left if column[at] != name]
            if others:
                self.out.append(Out(why_not, others))
                left = [at for at in left if column[at] == name]
        return [kind.numbers[at] for at in left], [kind.prices[at] for at in left]


class _Stays:
    """What a run takes: worked out once for machines that are as fast and charge by the same rule."""

    def __init__(self, question: Question) -> None:
        self._question = question
        self._known: dict[tuple[float | bool, ...], Stay] = {}

    def at(self, place: Place) -> Stay:
        training_s, offer = self._question.predicted(place.offer).training_s, place.offer
        rule = offer.billing.step_s, offer.billing.minimum_s, offer.longest_s
        start = place.boot_s, place.own, offer.paid, place.egress_microusd_per_gib
        key = training_s.expected, offer.interruptible, *start, *rule
        if key not in self._known:
            self._known[key] = stay(place, *self._question.taken(place, training_s))
        return self._known[key]


def stay(place: Place, taken: Stretch, egress_microusd: int) -> Stay:
    return Stay(taken.wall_s, taken.billed_s(place.offer), taken.runs, egress_microusd)
