"""The offers that are left for waiting jobs during one scheduling pass."""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace

from anygpu.control.schedule.compare import (
    JobComparison,
    OfferComparer,
    needs_comparison,
    work_key,
)
from anygpu.control.schedule.migration import (
    target_offer,
)
from anygpu.events.offers import Offer, OfferKey
from anygpu.events.view import JobView
from anygpu.plan.offers.fit import JobConstraints, Plan, make_plan
from anygpu.spec.sections import Resources

IsVisible = Callable[[str, str], bool]  # backend, organisation


class Candidates:
    """What is left of the offers during one pass. Jobs that ask for the same are planned once."""

    def __init__(
        self,
        views: Sequence[JobView],
        ask: Callable[[Resources], Awaitable[list[Offer]]],
        comparer: OfferComparer,
        visible: IsVisible,
        paid_attempts: int,
    ) -> None:
        self._fetch_offers = ask
        self._comparer = comparer
        self._comparisons: dict[object, JobComparison] = {}
        self._visible = visible
        self._paid_attempts = paid_attempts
        self._paid = _paid_in_flight(views)
        self._taken = _promised_slots(views)
        self._excluded: set[OfferKey] = set()
        self._offers: dict[Resources, list[Offer]] = {}
        self._plans: dict[object, Plan] = {}

    async def plan(self, view: JobView, now: JobConstraints) -> Plan:
        plan = await self.fit(view, now)
        if not needs_comparison(view.spec, [each.offer for each in plan.ranked if not each.rejection]):
            return plan
        return await self._plan_by_cost(view, now, _plan_key(view, now))

    async def fit(self, view: JobView, now: JobConstraints) -> Plan:
        """What fits and what is free, without comparing whole bills."""
        key = _plan_key(view, now)
        if key not in self._plans:
            self._plans[key] = make_plan(view.spec, await self._remaining_offers(view), now)
        return self._plans[key]

    async def _remaining_offers(self, view: JobView) -> list[Offer]:
        need = view.spec.resources
        if need not in self._offers:
            self._offers[need] = await self._fetch_offers(need)
        observed = [offer for offer in self._offers[need] if self._visible(offer.backend, view.organisation)]
        return [_with_free_slots(offer, self._taken, self._excluded) for offer in observed]

    async def _plan_by_cost(self, view: JobView, now: JobConstraints, key: object) -> Plan:
        """By whole bills. Jobs that are the same work are compared once, however many there are."""
        work = key, work_key(view), bool(view.attempts)
        plan = self._plans.get(work)
        if plan is not None:
            return plan
        offers, same = await self._remaining_offers(view), (view.organisation, work_key(view))
        if same not in self._comparisons:
            self._comparisons[same] = await self._comparer.compare(view, offers)
        plan = self._plans[work] = make_plan(
            view.spec, offers, now, self._comparisons[same].scores(begun=bool(view.attempts))
        )
        return plan

    def comparison_for(self, view: JobView) -> JobComparison | None:
        """The comparison its plan came from, where there was something to compare."""
        return self._comparisons.get((view.organisation, work_key(view)))

    def paid_limit_reason(self, organisation: str) -> str:
        """Launches count from their intent on, machines until they are confirmed gone."""
        if self._paid[organisation] < self._paid_attempts:
            return ""
        return f"{self._paid_attempts} paid attempts of {organisation} are in flight, as many as may be at a time"

    def take(self, offer: Offer, organisation: str) -> None:
        self._taken[offer.key] = self._taken.get(offer.key, 0) + 1
        self._paid[organisation] += offer.is_paid
        self._plans.clear()

    def reserve_target(self, view: JobView) -> None:
        """What a job is headed for is as good as taken."""
        target = target_offer(view)
        if target is not None:
            self.take(target, view.organisation)

    def reserve_waiting(self, plan: Plan) -> None:
        """Nobody behind the job that waits for these slots may have them."""
        self.exclude({ranked.offer.key for ranked in plan.ranked if ranked.wait_reason and ranked.full})

    def exclude(self, candidates: set[OfferKey]) -> None:
        """Nobody behind the job for which room is being made there may have it."""
        if not candidates <= self._excluded:
            self._excluded |= candidates
            self._plans.clear()


def _plan_key(view: JobView, now: JobConstraints) -> object:
    """The same for jobs between which a plan makes no difference."""
    spec = view.spec
    return view.organisation, spec.resources, spec.placement, spec.image, now


def _promised_slots(views: Sequence[JobView]) -> dict[OfferKey, int]:
    """Attempts that were promised a place and do not show in their backend's offers yet."""
    taken: dict[OfferKey, int] = {}
    for view in views:
        live = view.live_attempt
        if live is not None and live.handle is None and live.claimant is None:
            taken[live.offer.key] = taken.get(live.offer.key, 0) + 1
    return taken


def _paid_in_flight(views: Sequence[JobView]) -> Counter[str]:
    """By organisation: what costs, may cost, or is not known to have ended."""
    return Counter(v.organisation for v in views for a in v.attempts if a.offer.is_paid and not a.is_released)


def _with_free_slots(offer: Offer, taken: Mapping[OfferKey, int], blocked: set[OfferKey]) -> Offer:
    if offer.free is None:
        return offer
    left = 0 if offer.key in blocked else max(0, offer.free - taken.get(offer.key, 0))
    if left or offer.wait_reason:
        return replace(offer, free=left)
    return replace(offer, free=0, wait_reason=f"all slots of {offer.backend} are taken")
