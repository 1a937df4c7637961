"""Filter candidates and rank them by the job's strategy. Equal machines are evaluated only once."""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from itertools import chain, islice
from math import floor, inf
from typing import NamedTuple

from anygpu.events.offers import HOUR_S, LOCAL, Offer
from anygpu.plan.offers.availability import OfferAvailability
from anygpu.plan.offers.bill import RunTime, weighted_cost
from anygpu.plan.offers.candidates import Candidate, CandidateGroup, CandidateSet, PerformanceClass
from anygpu.plan.offers.estimate import Estimator
from anygpu.plan.offers.fit import requested_names, too_small_reason
from anygpu.plan.offers.wording import BestValues


class RunCost(NamedTuple):
    """Time, billed time, number of runs and download cost of a job on machines that are equally fast."""

    wall_s: float
    billed_s: int
    runs: int
    egress_microusd: int

    def cost(self, price: float) -> float:
        """Return the cost of the run in micro-dollars at a price per hour.

        The cost is not rounded, so that two different prices never lead to the same cost.
        """
        return price * self.billed_s / HOUR_S + self.egress_microusd

    def count_within(self, limit_microusd: int, prices: Sequence[float]) -> int:
        """Return at how many of these ascending prices the rounded cost of the run is within the limit."""
        limit = limit_microusd + 0.5
        return len(prices) if self.cost(prices[-1]) < limit else bisect_left(prices, limit, key=self.cost)


NO_RUN = RunCost(0.0, 0, 1, 0)


class FittingGroup(NamedTuple):
    """Equally fast candidates that fit the job, cheapest first."""

    representative: Candidate
    indices: Sequence[int]
    prices: Sequence[float]
    run_cost: RunCost
    lowest_cost: float  # the cheapest run
    is_doubtful: bool  # may have a problem, but not one that rejects them

    @property
    def credit(self) -> int:
        return self.representative.credit_microusd

    def costs(self, count: int | None = None) -> list[float]:
        """Return the costs of the first `count` candidates in micro-dollars; None means all candidates."""
        billed_s, egress = self.run_cost.billed_s, self.run_cost.egress_microusd
        return [price * billed_s / HOUR_S + egress for price in self.prices[:count]]


class Rejection(NamedTuple):
    """Candidates that do not fit, and the reason."""

    reason: str
    indices: Sequence[int]


class OfferFilter:
    """Splits candidates into those that fit a job (`groups`) and the others (`rejections`).

    Most reasons for rejection apply to all machines that are equally fast, so they are evaluated once for all of them.
    The candidates of a group are sorted by price, so those within the cost limit are found by bisection.
    """

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
        reason = estimator.unsuitable_reason(candidate)
        run_cost = self._run_costs.get(candidate) if not reason else NO_RUN
        problem = (
            estimator.predicted_problem(candidate, run_cost.wall_s, run_cost.runs) if not reason else None
        )
        is_doubtful = problem is not None and problem.is_doubtful
        reason = reason or (problem.reason if problem is not None and not is_doubtful else "")
        if reason:
            self.rejections.append(Rejection(reason, performance_class.combined.indices))
            return
        for group in performance_class.groups if self._has_size_limits else (performance_class.combined,):
            if too_little := too_small_reason(self._need, group.representative.offer):
                self.rejections.append(Rejection(too_little, group.indices))
            else:
                self._filter_by_cost(group, run_cost, is_doubtful=is_doubtful)

    def _filter_by_cost(self, group: CandidateGroup, run_cost: RunCost, *, is_doubtful: bool) -> None:
        """Keep the candidates in the requested location and within the cost limit; reject the others.

        If the predicted cost is uncertain, candidates beyond the cost limit are kept and marked as doubtful.
        """
        indices, prices = (
            self._filter_by_location(group) if self._requested_names else (group.indices, group.prices)
        )
        count = len(indices)
        if count and self._limit is not None:
            count = run_cost.count_within(self._limit, prices)
        self._keep(group, indices[:count], prices[:count], run_cost, is_doubtful=is_doubtful)
        if count == len(indices):
            return
        if self._estimator.doubts_cost(group.representative.offer):
            self._keep(group, indices[count:], prices[count:], run_cost, is_doubtful=True)
        else:
            self.rejections.append(Rejection(self._estimator.over_limit_reason, indices[count:]))

    def _keep(
        self,
        group: CandidateGroup,
        indices: Sequence[int],
        prices: Sequence[float],
        run_cost: RunCost,
        *,
        is_doubtful: bool,
    ) -> None:
        if indices:
            lowest = run_cost.cost(prices[0])
            self.groups.append(
                FittingGroup(group.representative, indices, prices, run_cost, lowest, is_doubtful)
            )

    def _filter_by_location(self, group: CandidateGroup) -> tuple[Sequence[int], Sequence[float]]:
        """Return indices and prices of the candidates in the requested location; reject the others."""
        remaining: Sequence[int] = range(len(group.indices))
        for field, name, reason in self._requested_names:
            column = group.locations[field]
            others = [group.indices[position] for position in remaining if column[position] != name]
            if others:
                self.rejections.append(Rejection(reason, others))
                remaining = [position for position in remaining if column[position] == name]
        return [group.indices[position] for position in remaining], [
            group.prices[position] for position in remaining
        ]


class _RunCosts:
    """A cache of run costs. Machines that are equally fast and have the same billing rule share an entry."""

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


TIER_STEP = 1e15  # micro-dollars: more than any bill, so a tier always outweighs the cost
MAX_PREFERENCE = 99


class Tier(NamedTuple):
    """What is compared before the cost when candidates are ranked, such as availability. Lower values come first."""

    availability: OfferAvailability
    preference: int  # position of the backend in the job's list of fallbacks
    is_doubtful: bool
    wall_s: float  # for the strategy `fastest`, else 0

    @property
    def number(self) -> int:
        """Everything that is compared before time and cost, as one number."""
        preference = min(self.preference, MAX_PREFERENCE)
        return (self.availability * (MAX_PREFERENCE + 1) + preference) * 2 + self.is_doubtful


class Ranking:
    """Indices of the candidates that fit a job, best first by the job's strategy. Lower scores are better.

    The first candidate of a group is the best of the group, so finding the best few candidates does not
    require sorting all of them.
    """

    def __init__(self, estimator: Estimator, candidates: CandidateSet) -> None:
        self.strategy = estimator.spec.placement.strategy or "cheapest"
        self._fallbacks = estimator.spec.placement.fallbacks
        self._availability = estimator.availability
        offer_filter = OfferFilter(estimator, candidates)
        # Ties go to the shorter run, then to the server's own machine, then to the group that comes first.
        self._groups = sorted(offer_filter.groups, key=_tie_breaker)
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

    def best_per_machine(self, backends: Collection[str] = ()) -> list[int]:
        """Return the best candidate for each GPU model and count, on demand and as spot, best first.

        `backends`: only candidates of these backends; empty means all.
        """
        best: dict[tuple[str, int, bool], int] = {}
        for _, _, position in self._group_heads:
            offer = self._groups[position].representative.offer
            if not backends or offer.backend in backends:
                best.setdefault(machine_of(offer), self._groups[position].indices[0])
        return list(best.values())

    def best_per_provider(self) -> list[int]:
        """Return the best candidate of each backend for each GPU model and count, on demand and as spot, best first."""
        best: dict[tuple[object, ...], int] = {}
        for _, _, position in self._group_heads:
            offer = self._groups[position].representative.offer
            best.setdefault((offer.backend, *machine_of(offer)), self._groups[position].indices[0])
        return list(best.values())

    def top(self, count: int | None) -> Sequence[int]:
        """Return the indices of the best `count` candidates, best first; None means all that fit.

        Only the best `count` groups are sorted, because they contain the best `count` candidates.
        """
        if count is None:
            return self._full_order
        positions = sorted(position for _, _, position in self._group_heads[:count])
        return self._sort([self._groups[position] for position in positions], count)

    @cached_property
    def _full_order(self) -> Sequence[int]:
        return self._sort(self._groups, None)

    @cached_property
    def _group_heads(self) -> list[tuple[Tier, float, int]]:
        """For each group of equal machines, best first: the rank of its first candidate, and the group's position."""
        return sorted((*self._key(group), position) for position, group in enumerate(self._groups))

    def _sort(self, groups: Iterable[FittingGroup], count: int | None) -> list[int]:
        tiers: dict[Tier, list[FittingGroup]] = {}
        for group in groups:
            tiers.setdefault(self._group_tier(group), []).append(group)
        ordered = (self._merge(tiers[tier], count) for tier in sorted(tiers))
        return list(islice(chain.from_iterable(ordered), count))

    def _merge(self, groups: Iterable[FittingGroup], count: int | None) -> list[int]:
        keys: dict[int, float] = {}
        for group in groups:
            keys.update(zip(group.indices[:count], self._keys(group, count), strict=True))
        return sorted(keys, key=keys.__getitem__)

    @cached_property
    def rejected_indices(self) -> list[int]:
        """Indices of the candidates that do not fit, ascending."""
        return sorted(chain.from_iterable(rejection.indices for rejection in self.rejections))

    def score(self, candidate: Candidate, wall_s: float, cost: float, *, is_doubtful: bool) -> float:
        """Return the rank of a candidate as one number; lower is better."""
        tier = self._tier(candidate, wall_s, is_doubtful=is_doubtful)
        key = tier.wall_s or self._cost_key(wall_s, cost, candidate.credit_microusd)
        return tier.number * TIER_STEP + key

    def _tier(self, candidate: Candidate, wall_s: float, *, is_doubtful: bool) -> Tier:
        order, backend = self._fallbacks, candidate.offer.backend
        return Tier(
            availability=self._availability(candidate),
            preference=order.index(backend) if backend in order else len(order),
            is_doubtful=is_doubtful,
            wall_s=wall_s if self.strategy == "fastest" else 0.0,
        )

    def _group_tier(self, group: FittingGroup) -> Tier:
        return self._tier(group.representative, group.run_cost.wall_s, is_doubtful=group.is_doubtful)

    def _keys(self, group: FittingGroup, count: int | None) -> list[float]:
        """Return the sort key (`_cost_key`) of each of the first `count` candidates of a group."""
        costs, credit = group.costs(count), group.credit
        weighted = [weighted_cost(cost, credit) for cost in costs] if credit else costs
        if self.strategy != "balanced":
            return weighted
        slower, least = group.run_cost.wall_s / max(1.0, self.fastest_s), max(1.0, self._lowest_weighted_cost)
        return [slower + cost / least for cost in weighted]

    def _key(self, group: FittingGroup) -> tuple[Tier, float]:
        """Return what the group's first candidate is ranked by: its tier and its sort key (`_cost_key`)."""
        return self._group_tier(group), self._cost_key(group.run_cost.wall_s, group.lowest_cost, group.credit)

    def _cost_key(self, wall_s: float, cost: float, credit: int) -> float:
        """Return the key that sorts candidates which are equal in everything that is compared before the cost.

        The key is the cost; for `balanced`, it is the sum of time and cost, each relative to the lowest.
        """
        weighted = weighted_cost(cost, credit)
        if self.strategy != "balanced":
            return weighted
        return wall_s / max(1.0, self.fastest_s) + weighted / max(1.0, self._lowest_weighted_cost)


def machine_of(offer: Offer) -> tuple[str, int, bool]:
    """Return the GPU model and count of an offer, and whether it is spot; offers without a GPU differ by their name."""
    return offer.gpu_kind or offer.name, offer.gpu_count, offer.interruptible


def _tie_breaker(group: FittingGroup) -> tuple[float, bool]:
    return group.run_cost.wall_s, group.representative.offer.backend != LOCAL


def _round_half_up(cost: float) -> int:
    return floor(cost + 0.5)
