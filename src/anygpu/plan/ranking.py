"""Which places will do, and in what order: decided once for each kind of place, priced for each place.

Within a kind the cheaper hour is the cheaper run, so limits are found by bisection and the best of a kind is its
first. All places are put in order only when somebody goes through them all.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain
from math import floor, inf
from typing import NamedTuple

from anygpu.plan.places import Alike, Place, Places
from anygpu.plan.question import Question
from anygpu.plan.words import Best
from anygpu.spec.model import JobSpec

HOUR_S = 3600.0
FURTHER = 1e15  # micro-dollars: no bill makes up for a place that is asked for later


class Group(NamedTuple):
    """The places of a kind that will do, cheapest first, and what a run takes there."""

    place: Place  # stands for all of them
    numbers: Sequence[int]
    prices: Sequence[float]
    wall_s: float
    billed_s: int
    egress_microusd: int

    def costs(self) -> list[float]:
        """Not rounded, so that of two hours the cheaper one is never level."""
        billed_s, egress = self.billed_s, self.egress_microusd
        return [price * billed_s / HOUR_S + egress for price in self.prices]

    @property
    def least(self) -> float:
        return self.prices[0] * self.billed_s / HOUR_S + self.egress_microusd

    @property
    def least_paid(self) -> float:
        """Of those that cost anything; there may be none."""
        price = next((price for price in self.prices if price > 0), inf)
        return price * self.billed_s / HOUR_S + self.egress_microusd

    def up_to(self, limit_microusd: int) -> "Group":
        """Those whose bill, rounded half up, stays within a limit."""
        dearest = (limit_microusd - self.egress_microusd + 0.5) * HOUR_S / max(1, self.billed_s)
        if self.prices[-1] < dearest:
            return self
        kept = bisect_left(self.prices, dearest)
        return self._replace(numbers=self.numbers[:kept], prices=self.prices[:kept])


class Ranking:
    """The places that will do for one question, by their numbers. A score: lower is better."""

    def __init__(self, question: Question, places: Places) -> None:
        self.strategy = question.spec.placement.strategy or "cheapest"
        self._fallbacks = question.spec.placement.fallbacks
        self._count = len(places)
        # Ties go to what is done first, then to the kind that comes first.
        self._groups = sorted(_groups(question, places), key=lambda group: group.wall_s)
        self.quickest_s = min((group.wall_s for group in self._groups), default=inf)
        self.least = min((group.least for group in self._groups), default=0.0)

    def __len__(self) -> int:
        return sum(len(group.numbers) for group in self._groups)

    @cached_property
    def best(self) -> Best:
        paid = min((group.least_paid for group in self._groups), default=inf)
        return Best(self.quickest_s, _rounded(self.least), _rounded(paid) if paid < inf else 0)

    @cached_property
    def best_of_each(self) -> list[int]:
        """The first with each number of each GPU in each market, best first."""
        firsts = [(*self._key(group, group.least), at) for at, group in enumerate(self._groups)]
        found: dict[tuple[str, int, bool], int] = {}
        for _, _, at in sorted(firsts):
            offer = self._groups[at].place.offer
            machine = offer.gpu_kind or offer.name, offer.gpu_count, offer.interruptible
            found.setdefault(machine, self._groups[at].numbers[0])
        return list(found.values())

    @cached_property
    def order(self) -> list[int]:
        """All that will do, best first."""
        tiers: dict[float, list[Group]] = {}
        for group in self._groups:
            tiers.setdefault(self._tier(group.place, group.wall_s), []).append(group)
        return list(chain.from_iterable(self._merged(tiers[tier]) for tier in sorted(tiers)))

    def _merged(self, groups: Sequence[Group]) -> Iterator[int]:
        numbers = list(chain.from_iterable(group.numbers for group in groups))
        keys = list(chain.from_iterable(map(self._keys, groups)))
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

    def _keys(self, group: Group) -> list[float]:
        """What decides within a tier, for each price."""
        if self.strategy != "balanced":
            return group.costs()
        slower, least = group.wall_s / max(1.0, self.quickest_s), max(1.0, self.least)
        return [slower + cost / least for cost in group.costs()]

    def _key(self, group: Group, cost: float) -> tuple[float, float]:
        """Tier and key of a single one."""
        tier = self._tier(group.place, group.wall_s)
        return tier, self.score(group.place, group.wall_s, cost) if self.strategy == "balanced" else cost


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
    wall_s, billed_s, egress = walls.of(alike.place)
    if question.deadline_s is not None and wall_s > question.deadline_s:
        return None
    group = Group(alike.place, alike.numbers, alike.prices, wall_s, billed_s, egress)
    limit = question.spec.limits.max_cost_microusd
    return group if limit is None else group.up_to(limit)


def _rounded(cost: float) -> int:
    """Half up, as bills are."""
    return floor(cost + 0.5)


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
    return group._replace(
        numbers=[group.numbers[at] for at in kept], prices=[group.prices[at] for at in kept]
    )


class _Walls:
    """Seconds until done, seconds charged, and the price of what leaves: once for machines that are as fast."""

    def __init__(self, question: Question) -> None:
        self._question = question
        self._known: dict[tuple[float | bool, ...], tuple[float, int, int]] = {}

    def of(self, place: Place) -> tuple[float, int, int]:
        training_s, offer = self._question.predicted(place.offer).training_s, place.offer
        rule = offer.billing.step_s, offer.billing.minimum_s
        start = place.boot_s, place.own, offer.paid, place.egress_microusd_per_gib
        key = training_s.expected, offer.interruptible, *start, *rule
        if key not in self._known:
            found = self._question.bill(place, training_s)
            wall_s = found.wall_s.expected
            self._known[key] = wall_s, offer.billing.billed_s(round(wall_s)), found.egress_microusd
        return self._known[key]
