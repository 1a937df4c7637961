"""In what order the places that will do are best, by the job's strategy.

The best of a kind is its first. All places are put in order only when somebody goes through them all.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import chain, islice
from math import floor, inf

from anygpu.plan.credit import weighed
from anygpu.plan.places import Place, Places
from anygpu.plan.question import Question
from anygpu.plan.sieve import Group, Out, Sieve
from anygpu.plan.words import Best

FURTHER = 1e15  # micro-dollars: no bill makes up for a place that is asked for later


class Ranking:
    """The places that will do for one question, by their numbers. A score: lower is better."""

    def __init__(self, question: Question, places: Places) -> None:
        self.strategy = question.spec.placement.strategy or "cheapest"
        self._fallbacks = question.spec.placement.fallbacks
        sieve = Sieve(question, places)
        # Ties go to what is done first, then to the kind that comes first.
        self._groups = sorted(sieve.groups, key=lambda group: group.stay.wall_s)
        self.out: Sequence[Out] = sieve.out
        self.quickest_s = self._groups[0].stay.wall_s if self._groups else inf
        self.least = min((group.least for group in self._groups), default=0.0)
        self._least_weighed = min((weighed(each.least, each.credit) for each in self._groups), default=0.0)

    def __len__(self) -> int:
        return sum(len(group.numbers) for group in self._groups)

    @cached_property
    def best(self) -> Best:
        paid = min((group.least for group in self._groups if group.place.offer.paid), default=0.0)
        return Best(self.quickest_s, _rounded(self.least), _rounded(paid))

    @cached_property
    def best_of_each(self) -> list[int]:
        """The first with each number of each GPU in each market, best first."""
        found: dict[tuple[str, int, bool], int] = {}
        for _, _, at in self._heads:
            offer = self._groups[at].place.offer
            machine = offer.gpu_kind or offer.name, offer.gpu_count, offer.interruptible
            found.setdefault(machine, self._groups[at].numbers[0])
        return list(found.values())

    def first(self, most: int | None) -> Sequence[int]:
        """The best so many, or all that will do. The best few are among the first few of the best few groups."""
        if most is None:
            return self._order
        near = sorted(at for _, _, at in self._heads[:most])
        return self._ordered([self._groups[at] for at in near], most)

    @cached_property
    def _order(self) -> Sequence[int]:
        return self._ordered(self._groups, None)

    @cached_property
    def _heads(self) -> list[tuple[float, float, int]]:
        """Tier and key of the first of each group, best first, and the group's place among the groups."""
        return sorted((*self._key(group), at) for at, group in enumerate(self._groups))

    def _ordered(self, groups: Iterable[Group], most: int | None) -> list[int]:
        tiers: dict[float, list[Group]] = {}
        for group in groups:
            tiers.setdefault(self._tier(group.place, group.stay.wall_s), []).append(group)
        ordered = (self._merged(tiers[tier], most) for tier in sorted(tiers))
        return list(islice(chain.from_iterable(ordered), most))

    def _merged(self, groups: Iterable[Group], most: int | None) -> list[int]:
        keys: dict[int, float] = {}
        for group in groups:
            keys.update(zip(group.numbers[:most], self._keys(group, most), strict=True))
        return sorted(keys, key=keys.__getitem__)

    @cached_property
    def others(self) -> list[int]:
        """Those that will not do, as they came."""
        return sorted(chain.from_iterable(out.numbers for out in self.out))

    def score(self, place: Place, wall_s: float, cost: float) -> float:
        if self.strategy == "fastest":
            return wall_s
        return self._tier(place, wall_s) + self._worth(wall_s, cost, place.credit_microusd)

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

    def _keys(self, group: Group, most: int | None) -> list[float]:
        """What decides within a tier, for each of the first prices: as `_worth`, of many at once."""
        costs, credit = group.costs(most), group.credit
        felt = [weighed(cost, credit) for cost in costs] if credit else costs
        if self.strategy != "balanced":
            return felt
        slower, least = group.stay.wall_s / max(1.0, self.quickest_s), max(1.0, self._least_weighed)
        return [slower + cost / least for cost in felt]

    def _key(self, group: Group) -> tuple[float, float]:
        """Tier and key of its first."""
        wall_s = group.stay.wall_s
        return self._tier(group.place, wall_s), self._worth(wall_s, group.least, group.credit)

    def _worth(self, wall_s: float, cost: float, credit: int) -> float:
        """What decides within a tier."""
        felt = weighed(cost, credit)
        if self.strategy != "balanced":
            return felt
        return wall_s / max(1.0, self.quickest_s) + felt / max(1.0, self._least_weighed)


def _rounded(cost: float) -> int:
    """Half up, as bills are."""
    return floor(cost + 0.5)
