"""Order waiting jobs, and count how much of the shared machines each project uses. Pure functions.

docs/explanation/queue.md explains quotas, shares and priorities.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from anygpu.control.policy import ControlPolicy, SharingPolicy
from anygpu.control.resume import can_resume
from anygpu.events.offers import OfferKey
from anygpu.events.slots import (
    SlotKind,
    SlotUsage,
    TenantKey,
    held_s,
    needed_slots,
    tenant_of,
    uses_own_slots,
)
from anygpu.events.view import AttemptView, JobView
from anygpu.plan import fair_share
from anygpu.plan.fair_share import FairShareRules, PoolJob


def is_waiting(view: JobView) -> bool:
    """Return whether the job needs an offer.

    True if no attempt is live and the job is neither finished nor cancelled.
    """
    if view.is_terminal or view.cancel_requested or view.live_attempt is not None:
        return False
    return view.newest_attempt is None or view.recovering_since_ms is not None


def waiting_since_ms(view: JobView) -> int:
    """Return the time at which the job began to wait, in Unix milliseconds.

    This is its submission, or the end of the last attempt that trained. Failed launches do not change it.
    """
    if not view.attempts:
        return view.submitted_at_ms
    ends = [
        a.ended_at_ms for a in view.attempts if a.training_at_ms is not None and a.ended_at_ms is not None
    ]
    return max(ends, default=view.submitted_at_ms)


def has_waited_too_long(view: JobView, now_ms: int, policy: ControlPolicy) -> bool:
    """Return whether the job has waited so long that GPUs or CPUs are reserved for it."""
    return now_ms - waiting_since_ms(view) > policy.reserve_after_s * 1000


SlotPool = tuple[OfferKey, SlotKind]  # the GPUs of one machine, or its processors


@dataclass(frozen=True, slots=True)
class SlotUse:
    """A job that uses GPUs or CPUs (slots) of the organisation's own machines, or will soon use them."""

    view: JobView
    attempt: AttemptView
    kind: SlotKind = field(init=False)
    slots: int = field(init=False)

    def __post_init__(self) -> None:
        kind, slots = needed_slots(self.view.spec.resources)
        object.__setattr__(self, "kind", kind)
        object.__setattr__(self, "slots", slots)

    @property
    def pool(self) -> SlotPool:
        return self.attempt.offer.key, self.kind

    @property
    def tenant(self) -> TenantKey:
        return TenantKey(self.view.organisation, self.view.project, self.kind)

    @property
    def is_leaving(self) -> bool:
        """Whether the attempt is ending or over, so that its GPUs or CPUs become free without a preemption."""
        ends = self.attempt.stop_reason or self.view.cancel_requested
        return bool(ends or (self.attempt.is_over and not self.attempt.is_held))


@dataclass(slots=True, kw_only=True)
class PoolState:
    """The use of GPUs and CPUs and the quotas of projects at one moment. The queue order is computed from it.

    `take` updates it while the scheduler runs.
    """

    now_s: float
    rules: FairShareRules
    tenants: Mapping[str, fair_share.PoolTenant]
    slot_uses: list[SlotUse]
    slots_in_use: Counter[str]  # slots by tenant

    def take(self, view: JobView) -> None:
        """Add the GPUs or CPUs of a job that was just scheduled."""
        live = view.live_attempt
        if live is not None and uses_own_slots(live):
            use = SlotUse(view, live)
            self.slot_uses.append(use)
            self.slots_in_use[_key(use.tenant)] += use.slots

    def over_quota(self, job: PoolJob) -> str:
        """Return why the quota of the job's project allows no more GPUs or CPUs now.

        Empty if the job may use the organisation's own machines.
        """
        tenant = self.tenants.get(job.tenant)
        if (
            tenant is None
            or tenant.may_borrow
            or self.slots_in_use[job.tenant] + job.gpus <= tenant.quota_gpus
        ):
            return ""
        return (
            f"its project already uses its quota of {tenant.quota_gpus} slots (GPUs or CPUs), and may not use "
            "slots of other projects"
        )

    def promised_offers(self) -> dict[str, OfferKey]:
        """Return the offers that preempted jobs are about to leave.

        The key is the id of the waiting job that gets them.
        """
        making = (h.attempt for h in self.slot_uses if h.attempt.makes_room_for)
        return {attempt.makes_room_for: attempt.offer.key for attempt in making}


def queue_state(
    views: Iterable[JobView], usages: Mapping[TenantKey, SlotUsage], policy: ControlPolicy, now_ms: int
) -> PoolState:
    """Build the state of the queue from all live jobs and the recorded use of GPUs and CPUs by ended jobs."""
    views = list(views)
    slot_uses = [SlotUse(v, a) for v in views for a in v.attempts if not a.is_released and uses_own_slots(a)]
    used = dict(usages)
    by_tenant: dict[TenantKey, list[SlotUse]] = {}
    for slot_use in slot_uses:
        by_tenant.setdefault(slot_use.tenant, []).append(slot_use)
    for tenant, uses in by_tenant.items():
        slot_s = sum(held_s(each.attempt, now_ms) * each.slots for each in uses)
        used[tenant] = used.get(tenant, SlotUsage()).add(slot_s, now_ms / 1000)
    shared = len({(view.organisation, view.project) for view in views}) > 1
    everyone = used.keys() | {tenant_of(view) for view in views} if policy.sharing.quotas else used.keys()
    return PoolState(
        now_s=now_ms / 1000,
        rules=_rules(policy, shared=shared),
        tenants={_key(each): _tenant(each, used.get(each, SlotUsage()), policy.sharing) for each in everyone},
        slot_uses=slot_uses,
        slots_in_use=Counter(
            {_key(each): sum(use.slots for use in uses) for each, uses in by_tenant.items()}
        ),
    )


def _rules(policy: ControlPolicy, *, shared: bool) -> FairShareRules:
    """Return the fair-share rules.

    If only one project has jobs (`shared` is false), long jobs are not preempted for short ones.
    """
    sharing = policy.sharing
    return FairShareRules(
        bands_gpu_s=sharing.bands_slot_s if shared else (),
        min_run_s=sharing.min_run_s,
        starvation_s=sharing.starvation_s,
        blocking_wait_s=policy.reserve_after_s,
    )


def _tenant(tenant: TenantKey, usage: SlotUsage, sharing: SharingPolicy) -> fair_share.PoolTenant:
    quota = sharing.quota(tenant)
    may_borrow = quota is None or sharing.may_borrow
    return fair_share.PoolTenant(quota_gpus=quota or 0, usage=usage, may_borrow=may_borrow)


def _key(tenant: TenantKey) -> str:
    return f"{tenant.organisation}/{tenant.project}/{tenant.kind}"


def pool_job(view: JobView, now_ms: int) -> PoolJob:
    live = view.live_attempt
    slots = needed_slots(view.spec.resources)[1]
    since_ms = None if live is None else live.training_at_ms or live.launching_at_ms
    return PoolJob(
        id=view.id,
        tenant=_key(tenant_of(view)),
        gpus=slots,
        submitted_s=view.submitted_at_ms / 1000,
        priority=view.spec.priority,
        attained_gpu_s=sum(held_s(attempt, now_ms) for attempt in view.attempts) * slots,
        checkpoints=_is_preemptible(view),
        running_since_s=None if since_ms is None else since_ms / 1000,
        waiting_since_s=waiting_since_ms(view) / 1000,
        start_requested_s=None if view.start_requested_at_ms is None else view.start_requested_at_ms / 1000,
    )


def _is_preemptible(view: JobView) -> bool:
    """Return whether the job is training and can resume from a checkpoint."""
    live = view.live_attempt
    if live is None or live.training_at_ms is None:
        return False
    return can_resume(view)


class PoolJobCache:
    """Converts waiting jobs to the form that the fair-share policy uses.

    The result is cached until the job changes.
    """

    def __init__(self) -> None:
        self._jobs: dict[str, tuple[int, PoolJob]] = {}

    def pool_jobs(self, views: Iterable[JobView], now_ms: int) -> list[PoolJob]:
        known = self._jobs
        self._jobs = {
            view.id: found
            if (found := known.get(view.id)) is not None and found[0] == view.position
            else (view.position, pool_job(view, now_ms))
            for view in views
        }
        return [job for _, job in self._jobs.values()]


def in_queue_order(jobs: Sequence[PoolJob], now: PoolState) -> list[PoolJob]:
    """Return the waiting jobs in the order in which they get machines.

    Jobs within their project's quota come first; each group is ordered by the fair-share policy. A job that a user
    asked to start is the first of its project.
    """
    ordered = _requested_first(fair_share.sort_jobs(jobs, now.tenants, now.now_s, now.rules))
    if not any(tenant.quota_gpus for tenant in now.tenants.values()):
        return ordered
    held = Counter(now.slots_in_use)
    within: list[PoolJob] = []
    beyond: list[PoolJob] = []
    for job in ordered:
        tenant = now.tenants.get(job.tenant)
        fits = tenant is not None and held[job.tenant] + job.gpus <= tenant.quota_gpus
        held[job.tenant] += job.gpus if fits else 0
        (within if fits else beyond).append(job)
    return [*within, *beyond]


def _requested_first(ordered: list[PoolJob]) -> list[PoolJob]:
    """Move jobs that a user asked to start to the first positions of their project, oldest request first.

    The positions of other projects' jobs do not change.
    """
    if all(job.start_requested_s is None for job in ordered):
        return ordered
    by_tenant: dict[str, list[PoolJob]] = {}
    for job in ordered:
        by_tenant.setdefault(job.tenant, []).append(job)
    turns = {tenant: iter(sorted(jobs, key=_request_key)) for tenant, jobs in by_tenant.items()}
    return [next(turns[job.tenant]) for job in ordered]


def _request_key(job: PoolJob) -> float:
    return float("inf") if job.start_requested_s is None else job.start_requested_s
