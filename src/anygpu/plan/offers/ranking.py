"""Filter and rank candidates by the job's strategy, evaluated once per group of equal machines."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import chain, islice
from math import floor, inf
from typing import NamedTuple

from anygpu.events.offers import HOUR_S
from anygpu.plan.offers.bill import RunTime, weighted_cost
from anygpu.plan.offers.candidates import Candidate, CandidateGroup, CandidateSet, PerformanceClass
from anygpu.plan.offers.estimate import Estimator
from anygpu.plan.offers.fit import requested_names, too_small_reason
from anygpu.plan.offers.wording import BestValues


class RunCost(NamedTuple):
    """What a job takes at a place: seconds until done, seconds charged, runs, and the price of what leaves."""

    wall_s: float
    billed_s: int
    runs: int
    egress_microusd: int

    def cost(self, price: float) -> float:
        """Not rounded, so that of two hours the cheaper one is never level."""
        return price * self.billed_s / HOUR_S + self.egress_microusd

    def count_within(self, limit_microusd: int, prices: Sequence[float]) -> int:
        """How many of these prices, which rise, make a bill that stays within a limit; bills are rounded half up."""
        limit = limit_microusd + 0.5
        return len(prices) if self.cost(prices[-1]) < limit else bisect_left(prices, limit, key=self.cost)


NO_RUN = RunCost(0.0, 0, 1, 0)


class FittingGroup(NamedTuple):
    """Places of a family that will do, cheapest first, and what a run takes there."""

    representative: Candidate  # stands for all of them
    indices: Sequence[int]
    prices: Sequence[float]
    run_cost: RunCost
    lowest_cost: float  # the cheapest run

    @property
    def credit(self) -> int:
        return self.representative.credit_microusd

    def costs(self, count: int | None = None) -> list[float]:
        """Of the first so many."""
        billed_s, egress = self.run_cost.billed_s, self.run_cost.egress_microusd
        return [price * billed_s / HOUR_S + egress for price in self.prices[:count]]


class Rejection(NamedTuple):
    """Places that will not do, for one reason."""

    reason: str
    indices: Sequence[int]


class OfferFilter:
    """Goes through all places once. `groups`: those that will do; `out`: the others."""

    def __init__(self, estimator: Estimator, candidates: CandidateSet) -> None:
        self.groups: list[FittingGroup] = []
        self.rejections: list[Rejection] = []
        self._estimator, self._run_costs = estimator, _RunCosts(estimator)
        self._limit = estimator.spec.limits.max_cost_microusd
        self._need = need = estimator.spec.resources
        self._has_size_limits = bool(need.cpus or need.memory_gib or need.disk_gib)
        self._requested_names = requested_names(estimator.spec)
        for performance_class in candidates.classes:
            self._filter_class(performance_class)

    def _filter_class(self, performance_class: PerformanceClass) -> None:
        estimator, candidate = self._estimator, performance_class.representative
        why_not = estimator.unsuitable_reason(candidate)
        run_cost = self._run_costs.get(candidate) if not why_not else NO_RUN
        why_not = (
            why_not
            or estimator.max_run_reason(candidate, run_cost.wall_s, run_cost.runs)
            or estimator.late_reason(run_cost.wall_s)
        )
        if why_not:
            self.rejections.append(Rejection(why_not, performance_class.combined.indices))
            return
        for group in performance_class.groups if self._has_size_limits else (performance_class.combined,):
            if too_little := too_small_reason(self._need, group.representative.offer):
                self.rejections.append(Rejection(too_little, group.indices))
            else:
                self._filter_by_cost(group, run_cost)

    def _filter_by_cost(self, group: CandidateGroup, run_cost: RunCost) -> None:
        """Keeps those whose bill is within the job's limit."""
        indices, prices = (
            self._filter_by_location(group) if self._requested_names else (group.indices, group.prices)
        )
        kept_count = len(indices)
        if kept_count and self._limit is not None:
            kept_count = run_cost.count_within(self._limit, prices)
        if kept_count < len(indices):
            self.rejections.append(Rejection(self._estimator.over_limit_reason, indices[kept_count:]))
            indices, prices = indices[:kept_count], prices[:kept_count]
        if kept_count:
            self.groups.append(
                FittingGroup(group.representative, indices, prices, run_cost, run_cost.cost(prices[0]))
            )

    def _filter_by_location(self, group: CandidateGroup) -> tuple[Sequence[int], Sequence[float]]:
        """Numbers and prices of those that the job asks for by name."""
        remaining: Sequence[int] = range(len(group.indices))
        for field, name, why_not in self._requested_names:
            column = group.locations[field]
            others = [group.indices[position] for position in remaining if column[position] != name]
            if others:
                self.rejections.append(Rejection(why_not, others))
                remaining = [position for position in remaining if column[position] == name]
        return [group.indices[position] for position in remaining], [
            group.prices[position] for position in remaining
        ]


class _RunCosts:
    """What a run takes: worked out once for machines that are as fast and charge by the same rule."""

    def __init__(self, estimator: Estimator) -> None:
        self._estimator = estimator
        self._cache: dict[tuple[float | bool, ...], RunCost] = {}

    def get(self, candidate: Candidate) -> RunCost:
        training_s, offer = self._estimator.predict_duration(candidate.offer).training_s, candidate.offer
        rule = offer.billing.step_s, offer.billing.minimum_s, offer.max_run_or_inf_s
        start = candidate.boot_s, candidate.configured, offer.is_paid, candidate.egress_microusd_per_gib
        key = training_s.expected, offer.interruptible, *start, *rule
        if key not in self._cache:
            self._cache[key] = run_cost_of(
                candidate, *self._estimator.run_time_and_egress(candidate, training_s)
            )
        return self._cache[key]


def run_cost_of(candidate: Candidate, run_time: RunTime, egress_microusd: int) -> RunCost:
    return RunCost(run_time.wall_s, run_time.billed_s(candidate.offer), run_time.runs, egress_microusd)


TIER_STEP = 1e15  # micro-dollars: no bill makes up for a place that is asked for later


class Ranking:
    """The places that will do for one question, by their numbers. A score: lower is better."""

    def __init__(self, estimator: Estimator, candidates: CandidateSet) -> None:
        self.strategy = estimator.spec.placement.strategy or "cheapest"
        self._fallbacks = estimator.spec.placement.fallbacks
        offer_filter = OfferFilter(estimator, candidates)
        # Ties go to what is done first, then to the kind that comes first.
        self._groups = sorted(offer_filter.groups, key=lambda group: group.run_cost.wall_s)
        self.rejections: Sequence[Rejection] = offer_filter.rejections
        self.fastest_s = self._groups[0].run_cost.wall_s if self._groups else inf
        self.lowest_cost = min((group.lowest_cost for group in self._groups), default=0.0)
        self._lowest_weighted_cost = min(
            (weighted_cost(each.lowest_cost, each.credit) for each in self._groups), default=0.0
        )

    def __len__(self) -> int:
        return sum(len(group.indices) for group in self._groups)

    @cached_property
    def best(self) -> BestValues:
        paid = min(
            (group.lowest_cost for group in self._groups if group.representative.offer.is_paid), default=0.0
        )
        return BestValues(self.fastest_s, _round_half_up(self.lowest_cost), _round_half_up(paid))

    @cached_property
    def best_per_machine(self) -> list[int]:
        """The first with each number of each GPU in each market, best first."""
        found: dict[tuple[str, int, bool], int] = {}
        for _, _, position in self._group_heads:
            offer = self._groups[position].representative.offer
            machine = offer.gpu_kind or offer.name, offer.gpu_count, offer.interruptible
            found.setdefault(machine, self._groups[position].indices[0])
        return list(found.values())

    def top(self, count: int | None) -> Sequence[int]:
        """The best so many, or all that will do. The best few are among the first few of the best few groups."""
        if count is None:
            return self._full_order
        positions = sorted(position for _, _, position in self._group_heads[:count])
        return self._sort([self._groups[position] for position in positions], count)

    @cached_property
    def _full_order(self) -> Sequence[int]:
        return self._sort(self._groups, None)

    @cached_property
    def _group_heads(self) -> list[tuple[float, float, int]]:
        """Tier and key of the first of each group, best first, and the group's place among the groups."""
        return sorted((*self._key(group), position) for position, group in enumerate(self._groups))

    def _sort(self, groups: Iterable[FittingGroup], count: int | None) -> list[int]:
        tiers: dict[float, list[FittingGroup]] = {}
        for group in groups:
            tiers.setdefault(self._tier(group.representative, group.run_cost.wall_s), []).append(group)
        ordered = (self._merge(tiers[tier], count) for tier in sorted(tiers))
        return list(islice(chain.from_iterable(ordered), count))

    def _merge(self, groups: Iterable[FittingGroup], count: int | None) -> list[int]:
        keys: dict[int, float] = {}
        for group in groups:
            keys.update(zip(group.indices[:count], self._keys(group, count), strict=True))
        return sorted(keys, key=keys.__getitem__)

    @cached_property
    def rejected_indices(self) -> list[int]:
        """Those that will not do, as they came."""
        return sorted(chain.from_iterable(rejection.indices for rejection in self.rejections))

    def score(self, candidate: Candidate, wall_s: float, cost: float) -> float:
        if self.strategy == "fastest":
            return wall_s
        return self._tier(candidate, wall_s) + self._cost_key(wall_s, cost, candidate.credit_microusd)

    def _tier(self, candidate: Candidate, wall_s: float) -> float:
        """What comes before any difference in cost."""
        match self.strategy:
            case "fastest":
                return wall_s
            case "preferred":
                order, backend = self._fallbacks, candidate.offer.backend
                return (order.index(backend) if backend in order else len(order)) * TIER_STEP
            case "queue":
                return (not candidate.configured) * TIER_STEP
            case _:
                return 0.0

    def _keys(self, group: FittingGroup, count: int | None) -> list[float]:
        """What decides within a tier, for each of the first prices: as `_worth`, of many at once."""
        costs, credit = group.costs(count), group.credit
        weighted = [weighted_cost(cost, credit) for cost in costs] if credit else costs
        if self.strategy != "balanced":
            return weighted
        slower, least = group.run_cost.wall_s / max(1.0, self.fastest_s), max(1.0, self._lowest_weighted_cost)
        return [slower + cost / least for cost in weighted]

    def _key(self, group: FittingGroup) -> tuple[float, float]:
        """Tier and key of its first."""
        wall_s = group.run_cost.wall_s
        return self._tier(group.representative, wall_s), self._cost_key(
            wall_s, group.lowest_cost, group.credit
        )

    def _cost_key(self, wall_s: float, cost: float, credit: int) -> float:
        """What decides within a tier."""
        weighted = weighted_cost(cost, credit)
        if self.strategy != "balanced":
            return weighted
        return wall_s / max(1.0, self.fastest_s) + weighted / max(1.0, self._lowest_weighted_cost)


def _round_half_up(cost: float) -> int:
    """Half up, as bills are."""
    return floor(cost + 0.5)
