"""The machines of one's own as a shared pool: who uses how much of them, and who is next. Pure.

docs/queue.md tells what a pool is and what its users may expect.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from anygpu.control.policy import Policy
from anygpu.control.queue import waiting_since_ms
from anygpu.control.sharing import Sharing
from anygpu.events.facts import Place
from anygpu.events.slots import SlotKind, Tenant, Usage, held_s, is_own, slots_of, tenant_of
from anygpu.events.view import AttemptView, JobView
from anygpu.plan import fair_share
from anygpu.plan.fair_share import FairShareRules, PoolJob
from anygpu.plan.offers.fit import has_resume_path

Spot = tuple[Place, SlotKind]  # what is shared: the GPUs of one machine, or its processors


@dataclass(frozen=True, slots=True)
class Holding:
    """An attempt that has slots of a machine of one's own, launches in flight included."""

    view: JobView
    attempt: AttemptView

    @property
    def spot(self) -> Spot:
        return self.attempt.offer.place, slots_of(self.view.spec.resources)[0]

    @property
    def slots(self) -> int:
        return slots_of(self.view.spec.resources)[1]

    @property
    def leaves(self) -> bool:
        """Its slots are coming free, or are already: nobody has to be asked for them."""
        ends = self.attempt.stop_reason or self.view.cancel_requested
        return bool(ends or (self.attempt.over and not self.attempt.held))


@dataclass(slots=True, kw_only=True)
class Standing:
    """What the order of the queue rests on at one moment; `take` keeps it true during a pass."""

    now_s: float
    rules: FairShareRules
    tenants: Mapping[str, fair_share.PoolTenant]
    holdings: list[Holding]
    held: Counter[str]  # slots by tenant

    def take(self, view: JobView) -> None:
        """The job has just been promised a place."""
        live = view.live_attempt
        if live is not None and is_own(live):
            self.holdings.append(Holding(view, live))
            self.held[_key(tenant_of(view))] += slots_of(view.spec.resources)[1]

    def over_quota(self, job: PoolJob) -> str:
        """Why the job may take nothing of one's own now; empty when it may."""
        tenant = self.tenants.get(job.tenant)
        if tenant is None or tenant.may_borrow or self.held[job.tenant] + job.gpus <= tenant.quota_gpus:
            return ""
        return f"the quota of its project, {tenant.quota_gpus} slots, is in use, and it may not borrow"

    def promised(self) -> dict[str, Place]:
        """Jobs for which somebody is making room, and where."""
        making = (h.attempt for h in self.holdings if h.attempt.makes_room_for)
        return {attempt.makes_room_for: attempt.offer.place for attempt in making}


def standing(
    views: Iterable[JobView], usages: Mapping[Tenant, Usage], policy: Policy, now_ms: int
) -> Standing:
    """From every live job, and from what was used by those that are no more."""
    views = list(views)
    holdings = [Holding(v, a) for v in views for a in v.attempts if not a.released and is_own(a)]
    used, held = dict(usages), Counter[str]()
    for holding in holdings:
        tenant, slot_s = tenant_of(holding.view), held_s(holding.attempt, now_ms) * holding.slots
        used[tenant] = used.get(tenant, Usage()).plus(slot_s, now_ms / 1000)
        held[_key(tenant)] += holding.slots
    shared = len({(view.organisation, view.project) for view in views}) > 1
    everyone = used.keys() | {tenant_of(view) for view in views} if policy.sharing.quotas else used.keys()
    return Standing(
        now_s=now_ms / 1000,
        rules=_rules(policy, shared=shared),
        tenants={_key(each): _tenant(each, used.get(each, Usage()), policy.sharing) for each in everyone},
        holdings=holdings,
        held=held,
    )


def _rules(policy: Policy, *, shared: bool) -> FairShareRules:
    """Among the jobs of one project alone nobody is asked to make room for having run long."""
    sharing = policy.sharing
    return FairShareRules(
        bands_gpu_s=sharing.bands_slot_s if shared else (),
        min_run_s=sharing.runs_at_least_s,
        starvation_s=sharing.starved_s,
        blocking_wait_s=policy.patience_s,
    )


def _tenant(tenant: Tenant, usage: Usage, sharing: Sharing) -> fair_share.PoolTenant:
    quota = sharing.quota(tenant)
    may_borrow = quota is None or sharing.may_borrow
    return fair_share.PoolTenant(quota_gpus=quota or 0, usage=usage, may_borrow=may_borrow)


def _key(tenant: Tenant) -> str:
    return f"{tenant.organisation}/{tenant.project}/{tenant.kind}"


def pool_job(view: JobView, now_ms: int) -> PoolJob:
    live = view.live_attempt
    slots = slots_of(view.spec.resources)[1]
    since_ms = None if live is None else live.training_at_ms or live.launching_at_ms
    return PoolJob(
        id=view.id,
        tenant=_key(tenant_of(view)),
        gpus=slots,
        submitted_s=view.submitted_at_ms / 1000,
        priority=view.spec.priority,
        attained_gpu_s=sum(held_s(attempt, now_ms) for attempt in view.attempts) * slots,
        checkpoints=_can_be_stopped(view),
        running_since_s=None if since_ms is None else since_ms / 1000,
        waiting_since_s=waiting_since_ms(view) / 1000,
    )


def _can_be_stopped(view: JobView) -> bool:
    """It trains, and shows that it can go on where it stopped."""
    live = view.live_attempt
    if live is None or live.training_at_ms is None:
        return False
    return bool(view.checkpoints or view.past_checkpoints) or has_resume_path(view.spec)


class Waiting:
    """Waiting jobs as the policy sees them, made anew only when a job has changed."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, PoolJob]] = {}

    def of(self, views: Iterable[JobView], now_ms: int) -> list[PoolJob]:
        known = self._known
        self._known = {
            view.id: found
            if (found := known.get(view.id)) is not None and found[0] == view.position
            else (view.position, pool_job(view, now_ms))
            for view in views
        }
        return [job for _, job in self._known.values()]


def in_turn(jobs: Sequence[PoolJob], now: Standing) -> list[PoolJob]:
    """Best first; those within their project's quota before those that borrow."""
    ordered = fair_share.sort_jobs(jobs, now.tenants, now.now_s, now.rules)
    if not any(tenant.quota_gpus for tenant in now.tenants.values()):
        return ordered
    held = Counter(now.held)
    within: list[PoolJob] = []
    beyond: list[PoolJob] = []
    for job in ordered:
        tenant = now.tenants.get(job.tenant)
        fits = tenant is not None and held[job.tenant] + job.gpus <= tenant.quota_gpus
        held[job.tenant] += job.gpus if fits else 0
        (within if fits else beyond).append(job)
    return [*within, *beyond]
