"""Which places will do, and in what order: decided once for each kind of place, priced for each place.

Within a kind the cheaper hour is the cheaper run, so limits are found by bisection and the best of a kind is its
first. All places are put in order only when somebody goes through them all.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from operator import itemgetter

from anygpu.plan.places import Alike, Place, Places
from anygpu.plan.question import Question
from anygpu.plan.words import Best
from anygpu.spec.model import JobSpec

HOUR_S = 3600.0
FURTHER = 1e15  # micro-dollars: no bill makes up for a place that is asked for later


@dataclass(frozen=True, slots=True)
class Group:
    """The places of a kind that will do, cheapest first, and what a run takes there."""

    place: Place  # stands for all of them
    numbers: Sequence[int]
    prices: Sequence[float]
    wall_s: float
    billed_s: int
    egress_microusd: int

    def cost(self, price: float) -> int:
        """In whole micro-dollars, as the bill says it."""
        billing = self.place.offer.billing
        return billing.cost_microusd(int(price), round(self.wall_s)) + self.egress_microusd

    def costs(self, prices: Sequence[float]) -> list[float]:
        """Not rounded, so that of two hours the cheaper one is never level."""
        billed_s, egress = self.billed_s, self.egress_microusd
        return [price * billed_s / HOUR_S + egress for price in prices]


class Ranking:
    """The places that will do for one question, by their numbers. A score: lower is better."""

    def __init__(self, question: Question, places: Places) -> None:
        self.strategy = question.spec.placement.strategy or "cheapest"
        self._fallbacks = question.spec.placement.fallbacks
        self._count = len(places)
        # Ties go to what is done first, then to the kind that comes first.
        self._groups = sorted(_groups(question, places), key=lambda group: group.wall_s)
        self.quickest_s = min((group.wall_s for group in self._groups), default=inf)
        self.least = min((group.costs(group.prices[:1])[0] for group in self._groups), default=0.0)

    def __len__(self) -> int:
        return sum(len(group.numbers) for group in self._groups)

    @cached_property
    def best(self) -> Best:
        firsts = ((group, bisect_right(group.prices, 0)) for group in self._groups)
        paid = [group.cost(group.prices[at]) for group, at in firsts if at < len(group.prices)]
        costs = [group.cost(group.prices[0]) for group in self._groups]
        return Best(self.quickest_s, min(costs, default=0), min(paid, default=0))

    @cached_property
    def best_of_each(self) -> list[int]:
        """The first of every kind, best first."""
        firsts = [
            (self._tier(group.place, group.wall_s), self._keys(group, group.prices[:1]), group.numbers[0])
            for group in self._groups
        ]
        return [number for _, _, number in sorted(firsts, key=itemgetter(0, 1))]

    @cached_property
    def order(self) -> list[int]:
        """All that will do, best first."""
        tiers: dict[float, list[Group]] = {}
        for group in self._groups:
            tiers.setdefault(self._tier(group.place, group.wall_s), []).append(group)
        return [number for tier in sorted(tiers) for number in self._merged(tiers[tier])]

    def _merged(self, groups: Sequence[Group]) -> Iterator[int]:
        numbers = [number for group in groups for number in group.numbers]
        keys = [key for group in groups for key in self._keys(group, group.prices)]
        return map(numbers.__getitem__, sorted(range(len(keys)), key=keys.__getitem__))

    @cached_property
    def others(self) -> list[int]:
        """Those that will not do, as they came."""
        fit = {number for group in self._groups for number in group.numbers}
        return [number for number in range(self._count) if number not in fit]

    def score(self, place: Place, wall_s: float, cost: float) -> float:
        match self.strategy:
            case "fastest":
                return wall_s
            case "balanced":
                return wall_s / max(1.0, self.quickest_s) + cost / max(1.0, self.least)
            case _:
                return self._tier(place, wall_s) + cost

    def _tier(self, place: Place, wall_s: float) -> float:
        """What comes before any difference in cost."""
        match self.strategy:
            case "fastest":
                return wall_s
            case "preferred":
                order, backend = self._fallbacks, place.offer.backend
                return (order.index(backend) if backend in order else len(order)) * FURTHER
            case "queue":
                return (not place.own) * FURTHER
            case _:
                return 0.0

    def _keys(self, group: Group, prices: Sequence[float]) -> list[float]:
        """What decides within a tier, of each price."""
        costs = group.costs(prices)
        if self.strategy != "balanced":
            return costs
        slower, least = group.wall_s / max(1.0, self.quickest_s), max(1.0, self.least)
        return [slower + cost / least for cost in costs]


def _groups(question: Question, places: Places) -> Iterator[Group]:
    anywhere = Question(
        spec=_anywhere(question.spec),
        read=question.read,
        deadline_s=question.deadline_s,
        duration=question.duration,
    )
    walls = _Walls(anywhere)
    for alike in places.alike:
        if not anywhere.unfit(alike.place) and (group := _within_limits(question, walls, alike)) is not None:
            there = _there(question.spec, places, group)
            if there.numbers:
                yield there


def _anywhere(spec: JobSpec) -> JobSpec:
    """The same job, without what a kind of place cannot answer."""
    placement = spec.placement.model_copy(update={"region": None, "instance_type": None})
    return spec.model_copy(update={"placement": placement})


def _within_limits(question: Question, walls: "_Walls", alike: Alike) -> Group | None:
    wall_s, egress = walls.of(alike.place)
    if question.deadline_s is not None and wall_s > question.deadline_s:
        return None
    billed_s = alike.place.offer.billing.billed_s(round(wall_s))
    group = Group(alike.place, alike.numbers, alike.prices, wall_s, billed_s, egress)
    limit = question.spec.limits.max_cost_microusd
    if limit is None or group.cost(alike.prices[-1]) <= limit:
        return group
    affordable = bisect_right(alike.prices, limit, key=group.cost)
    return replace(group, numbers=alike.numbers[:affordable], prices=alike.prices[:affordable])


def _there(spec: JobSpec, places: Places, group: Group) -> Group:
    """Those in the region and of the name that the job asks for."""
    region, name = spec.placement.region, spec.placement.instance_type
    if not region and not name:
        return group
    kept = [
        at
        for at, number in enumerate(group.numbers)
        if (not region or places.regions[number] == region) and (not name or places.names[number] == name)
    ]
    return replace(
        group, numbers=[group.numbers[at] for at in kept], prices=[group.prices[at] for at in kept]
    )


class _Walls:
    """Seconds until done, and what leaves the place, worked out once for machines that are as fast."""

    def __init__(self, question: Question) -> None:
        self._question = question
        self._known: dict[tuple[float, float, int, bool], tuple[float, int]] = {}

    def of(self, place: Place) -> tuple[float, int]:
        training_s = self._question.predicted(place.offer).training_s
        key = (
            training_s.expected,
            place.boot_s,
            place.egress_microusd_per_gib,
            place.offer.interruptible,
        )
        if key not in self._known:
            found = self._question.bill(place, training_s)
            self._known[key] = found.wall_s.expected, found.egress_microusd
        return self._known[key]
