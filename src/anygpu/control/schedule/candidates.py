"""Provide the offers that jobs can be scheduled on, and track which are taken during one scheduling pass.

A scheduling pass is one run of the scheduler over all waiting jobs.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace

from anygpu.backends.contract import Backend
from anygpu.backends.health import NO_HEALTH_RECORDER, HealthRecorder
from anygpu.control.accounting.money import remaining_budget
from anygpu.control.clock import Clock
from anygpu.control.policy import ControlPolicy
from anygpu.control.reconcile.verdict import MIGRATION_REASON
from anygpu.control.resume import can_resume
from anygpu.control.schedule.compare import (
    JobComparison,
    OfferComparer,
    has_paid_before,
    needs_comparison,
    work_key,
)
from anygpu.control.schedule.cooldown import Cooldown
from anygpu.control.schedule.offer_cache import OfferCache
from anygpu.events.offers import Offer, OfferKey
from anygpu.events.view import JobView
from anygpu.plan.offers.candidates import Candidate
from anygpu.plan.offers.selection import JobConstraints, Plan, make_plan
from anygpu.spec.sections import Resources

IsVisible = Callable[[str, str], bool]  # (backend, organisation)


class CandidateSource:
    """Provides the current offers of all backends, without those that are not used for a while after a failure."""

    def __init__(
        self,
        backends: Mapping[str, Backend],
        comparer: OfferComparer,
        clock: Clock,
        policy: ControlPolicy,
        is_visible: IsVisible = lambda backend, organisation: True,
        health: HealthRecorder = NO_HEALTH_RECORDER,
    ) -> None:
        self._cache = OfferCache(backends, clock, policy, health)
        self._cooldown = Cooldown(clock, policy)
        self._comparer = comparer
        self._policy = policy
        self._is_visible = is_visible

    def next_at(self) -> float:
        """Return when the first blocked offer may be used again, by the monotonic clock."""
        return self._cooldown.next_at()

    async def offers(self, view: JobView) -> list[Offer]:
        """Fetch the offers that the job's organisation may use."""
        offers = await self._cache.offers(view.spec.resources)
        return [offer for offer in offers if self._is_visible(offer.backend, view.organisation)]

    def candidates(self, views: Sequence[JobView], *, observe: bool = False) -> "Candidates":
        """Return the offers that jobs can get in this run of the scheduler.

        If `observe` is true, offers on which attempts have failed since the last run are blocked first.
        """
        if observe:
            self._cooldown.observe(views)
        common = JobConstraints(
            allow_paid=self._policy.allow_paid,
            min_run_s=self._policy.min_run_s,
            avoided=self._cooldown.recently_preempted(),
            cooldowns=tuple(sorted(self._cooldown.blocked_offers().items())),
            outages=tuple(sorted(self._cooldown.blocked_backends().items())),
        )
        limit = self._policy.max_paid_attempts
        return Candidates(views, self._cache.offers, self._comparer, self._is_visible, limit, common)


class Candidates:
    """The offers that are still free during one run of the scheduler over all waiting jobs.

    Jobs with equal requirements share a plan.
    """

    def __init__(
        self,
        views: Sequence[JobView],
        ask: Callable[[Resources], Awaitable[list[Offer]]],
        comparer: OfferComparer,
        visible: IsVisible,
        paid_attempts: int,
        common: JobConstraints,
    ) -> None:
        self._fetch_offers = ask
        self._comparer = comparer
        self._comparisons: dict[object, JobComparison] = {}
        self._visible = visible
        self._paid_attempts = paid_attempts
        self._common = common
        self._paid = _paid_in_flight(views)
        self._taken = _promised_slots(views)
        self._excluded: set[OfferKey] = set()
        self._reserved_groups: set[OfferKey] = set()
        self._offers: dict[Resources, list[Offer]] = {}
        self._plans: dict[object, Plan] = {}

    async def constraints(self, view: JobView, now_ms: int, own_wait_reason: str = "") -> JobConstraints:
        """Collect the constraints on the choice of an offer for a job.

        `own_wait_reason` says why the job may not use the organisation's own machines; empty if it may.
        """
        target = target_offer(view)
        return replace(
            self._common,
            resumable=await self._resumable(view),
            budget_left_microusd=remaining_budget(view, now_ms),
            allow_paid=self._common.allow_paid or has_paid_before(view),
            preferred_backend=view.migrate_to,
            preferred_offer=None if target is None else target.key,
            paid_wait_reason=self.paid_limit_reason(view.organisation),
            own_wait_reason=own_wait_reason,
        )

    async def _resumable(self, view: JobView) -> bool | None:
        """Return whether the job can resume; None if nothing shows it.

        The code is analysed only if the answer can change the choice of an offer.
        """
        if view.resumed is not None:
            return view.resumed
        if can_resume(view):
            return True
        automatic = view.spec.placement.interruptible == "auto"
        if not automatic or not any(offer.interruptible for offer in await self._visible_offers(view)):
            return None
        return can_resume(view, await self._comparer.analysis(view)) or None

    async def plan(self, view: JobView, now: JobConstraints) -> Plan:
        plan = await self.fit(view, now)
        if not needs_comparison(view.spec, [each.offer for each in plan.ranked if not each.rejection]):
            return plan
        return await self._plan_by_cost(view, now, _plan_key(view, now))

    async def fit(self, view: JobView, now: JobConstraints) -> Plan:
        """Return a plan with the offers that fit the job, without comparing what the job would cost on each."""
        key = _plan_key(view, now)
        if key not in self._plans:
            self._plans[key] = make_plan(view.spec, await self._remaining(view), now)
        return self._plans[key]

    async def _remaining(self, view: JobView) -> list[Candidate]:
        observed = await self._visible_offers(view)
        blocked = self._blocked_offers(observed)
        remaining = [_with_free_slots(offer, self._taken, blocked) for offer in observed]
        return [self._comparer.candidate(offer) for offer in remaining]

    def _blocked_offers(self, offers: Sequence[Offer]) -> set[OfferKey]:
        """Return which of the offers are reserved for other jobs.

        A group of hosts and its hosts are different offers of the same machines: jobs on several nodes see the group,
        other jobs see the hosts. So a group is blocked together with any of its hosts, and they together with it.
        """
        seen = {offer.key for offer in offers}
        groups = {key[0] for key in self._reserved_groups - seen}
        hosts = {key[0] for key in self._excluded - seen}
        shared = {o.key for o in offers if o.own and o.backend in (hosts if o.max_nodes > 1 else groups)}
        return self._excluded | shared

    async def _visible_offers(self, view: JobView) -> list[Offer]:
        need = view.spec.resources
        if need not in self._offers:
            self._offers[need] = await self._fetch_offers(need)
        return [offer for offer in self._offers[need] if self._visible(offer.backend, view.organisation)]

    async def _plan_by_cost(self, view: JobView, now: JobConstraints, key: object) -> Plan:
        """Return a plan ordered by total cost and time. Jobs with the same work share a comparison."""
        work = key, work_key(view), bool(view.attempts)
        plan = self._plans.get(work)
        if plan is not None:
            return plan
        candidates, same = await self._remaining(view), (view.organisation, work_key(view))
        if same not in self._comparisons:
            self._comparisons[same] = await self._comparer.compare(view, candidates)
        comparison = self._comparisons[same].comparison
        plan = make_plan(view.spec, candidates, now, comparison, started=bool(view.attempts))
        self._plans[work] = plan
        return plan

    def comparison_for(self, view: JobView) -> JobComparison | None:
        """Return the comparison behind the job's plan, or None if nothing was compared."""
        return self._comparisons.get((view.organisation, work_key(view)))

    def paid_limit_reason(self, organisation: str) -> str:
        """Return why the organisation may launch no more paid attempts, or an empty string if it may.

        An attempt counts from the decision to launch it until its machine is confirmed gone.
        """
        if self._paid[organisation] < self._paid_attempts:
            return ""
        return f"the limit of {self._paid_attempts} paid attempts of {organisation} is reached (control.paid_attempts)"

    def take(self, offer: Offer, organisation: str, nodes: int) -> None:
        self._taken[offer.key] = self._taken.get(offer.key, 0) + nodes
        self._paid[organisation] += offer.is_paid
        self._plans.clear()

    def reserve_target(self, view: JobView) -> None:
        """Mark the offer that a migrating job moves to as taken."""
        target = target_offer(view)
        if target is not None:
            self.take(target, view.organisation, view.spec.resources.nodes)

    def reserve_waiting(self, plan: Plan) -> None:
        """Reserve the busy offers that a job waits for according to this plan.

        Jobs that the scheduler considers later in the same run cannot take them.
        """
        busy = [ranked.offer for ranked in plan.ranked if ranked.wait_reason and ranked.full]
        self._reserved_groups |= {offer.key for offer in busy if offer.max_nodes > 1}
        self.exclude({offer.key for offer in busy})

    def exclude(self, offers: set[OfferKey]) -> None:
        """Reserve these offers, so that jobs which the scheduler considers later in the same run cannot use them."""
        if not offers <= self._excluded:
            self._excluded |= offers
            self._plans.clear()


def _plan_key(view: JobView, now: JobConstraints) -> object:
    """Return a key that is equal for jobs that can share a plan."""
    spec = view.spec
    return view.organisation, spec.resources, spec.placement, spec.image, now


def _promised_slots(views: Sequence[JobView]) -> dict[OfferKey, int]:
    """Count the GPUs and CPUs of attempts that are being launched, which the backends still list as free."""
    taken: dict[OfferKey, int] = {}
    for view in views:
        live = view.live_attempt
        if live is not None and live.handle is None and live.claimant is None:
            taken[live.offer.key] = taken.get(live.offer.key, 0) + live.node_count
    return taken


def _paid_in_flight(views: Sequence[JobView]) -> Counter[str]:
    """Count, for each organisation, the paid attempts whose machines are not confirmed to be gone."""
    return Counter(v.organisation for v in views for a in v.attempts if a.offer.is_paid and not a.is_released)


def _with_free_slots(offer: Offer, taken: Mapping[OfferKey, int], blocked: set[OfferKey]) -> Offer:
    """Return the offer without the machines that other jobs get.

    `free` stays a number of machines: the plan compares it with the number of nodes that a job needs.
    """
    if offer.free is None:
        return offer
    left = 0 if offer.key in blocked else max(0, offer.free - taken.get(offer.key, 0))
    if left or offer.wait_reason:
        return replace(offer, free=left)
    return replace(offer, free=0, wait_reason=f"all slots of {offer.backend} are taken")


def target_offer(view: JobView) -> Offer | None:
    """Return the offer that a migrating job moves to, or None if the job is not migrating.

    The target is the better offer that the job has stopped for, or one at the backend the user asked for.
    """
    newest, found = view.newest_attempt, view.better
    if newest is None or found is None:
        return None
    asked = view.migrate_to == found.offer.backend
    return found.offer if asked or newest.stop_reason == MIGRATION_REASON else None
