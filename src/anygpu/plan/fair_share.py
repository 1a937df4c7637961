"""Who runs in a shared pool: quota with borrowing, priority, attained service, decayed usage, submit order.

Pure and replayable: `decide` looks at all jobs of a pool and says which run. Nothing is known of how long a job will
take, so those that have taken little go first: most jobs are short, and a long one hardly notices. docs/queue.md has
the measurements.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from anygpu.events.slots import HALF_LIFE_S as HALF_LIFE_S
from anygpu.events.slots import SlotUsage

HOUR_S = 3600.0
BANDS_GPU_S = (1 * HOUR_S, 32 * HOUR_S)  # under 1 GPU-hour, under 32, and beyond
MIN_RUN_S = 600.0  # what was started is left alone for so long: moving costs time too
STARVATION_S = 24 * HOUR_S  # who has waited so long goes first


@dataclass(frozen=True, slots=True, kw_only=True)
class FairShareRules:
    """The numbers the policy goes by."""

    bands_gpu_s: tuple[float, ...] = BANDS_GPU_S
    min_run_s: float = MIN_RUN_S
    starvation_s: float = STARVATION_S
    blocking_wait_s: float = (
        STARVATION_S  # while somebody who has waited so long does not fit, nobody behind it starts
    )


DEFAULT_RULES = FairShareRules()


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolTenant:
    """Who shares the pool. The quota is always theirs; what others leave idle they may borrow."""

    quota_gpus: int = 0
    usage: SlotUsage = field(default_factory=SlotUsage)
    may_borrow: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolJob:
    """A job that wants to run in the pool, or does."""

    id: str
    tenant: str
    gpus: int
    submitted_s: float
    priority: int = 0  # higher goes first
    attained_gpu_s: float = 0.0  # over all its attempts
    checkpoints: bool = False  # only such a job is ever preempted
    running_since_s: float | None = None
    waiting_since_s: float | None = None  # when it last stopped running; at first when it was submitted

    @property
    def running(self) -> bool:
        return self.running_since_s is not None

    def band(self, rules: FairShareRules = DEFAULT_RULES) -> int:
        return bisect_right(rules.bands_gpu_s, self.attained_gpu_s)

    def wait_s(self, now_s: float) -> float:
        """How long it has waited; nothing while it runs."""
        since_s = self.submitted_s if self.waiting_since_s is None else self.waiting_since_s
        return 0.0 if self.running else now_s - since_s

    def is_starved(self, now_s: float, rules: FairShareRules = DEFAULT_RULES) -> bool:
        since_s = self.submitted_s if self.waiting_since_s is None else self.waiting_since_s
        return self.running_since_s is None and now_s - since_s >= rules.starvation_s

    def is_pinned(self, now_s: float, rules: FairShareRules = DEFAULT_RULES) -> bool:
        """Whether it may not be preempted now."""
        since_s = self.running_since_s
        return since_s is not None and (not self.checkpoints or now_s - since_s < rules.min_run_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """What to do now; first preempt, then start when the GPUs are free."""

    start: tuple[str, ...] = ()
    preempt: tuple[str, ...] = ()
    wait_reasons: Mapping[str, str] = field(default_factory=dict)  # why, for the person who waits
    recheck_s: float | None = None  # when a running job changes its band or may be preempted, at the earliest


def allocate(
    gpus: int,
    jobs: Sequence[PoolJob],
    tenants: Mapping[str, PoolTenant],
    now_s: float,
    rules: FairShareRules = DEFAULT_RULES,
) -> Allocation:
    """Which jobs of the pool run from now on."""
    ordered = sort_jobs(jobs, tenants, now_s, rules)
    given = _Pool(gpus, tenants, rules)
    for job in ordered:
        if job.is_pinned(now_s, rules):
            given.take(job)
    given.allocate(ordered, now_s, borrowing=False)
    given.allocate(ordered, now_s, borrowing=True)
    return Allocation(
        start=tuple(job.id for job in ordered if job.id in given.allocated and not job.running),
        preempt=tuple(job.id for job in ordered if job.id not in given.allocated and job.running),
        wait_reasons={job.id: given.wait_reason(job) for job in ordered if job.id not in given.allocated},
        recheck_s=_next_change_s([job for job in ordered if job.id in given.allocated], now_s, rules),
    )


def sort_jobs(
    jobs: Sequence[PoolJob],
    tenants: Mapping[str, PoolTenant],
    now_s: float,
    rules: FairShareRules = DEFAULT_RULES,
) -> list[PoolJob]:
    """Best first. Within a band what runs goes on: a tenant's usage decides who starts, not who stops."""
    usage = {name: tenant.usage.decayed(now_s) for name, tenant in tenants.items()}

    def key(job: PoolJob) -> tuple[bool, int, int, bool, float, float, str]:
        used = usage.get(job.tenant, 0.0)
        band, is_waiting = bisect_right(rules.bands_gpu_s, job.attained_gpu_s), job.running_since_s is None
        return (
            not job.is_starved(now_s, rules),
            -job.priority,
            band,
            is_waiting,
            used,
            job.submitted_s,
            job.id,
        )

    return sorted(jobs, key=key)


class _Pool:
    """GPUs as they are given out."""

    def __init__(self, gpus: int, tenants: Mapping[str, PoolTenant], rules: FairShareRules) -> None:
        self.gpus, self.free = gpus, gpus
        self.tenants, self.rules = tenants, rules
        self.allocated: set[str] = set()
        self.by_tenant: dict[str, int] = {}

    def take(self, job: PoolJob) -> None:
        self.allocated.add(job.id)
        self.free -= job.gpus
        self.by_tenant[job.tenant] = self.by_tenant.get(job.tenant, 0) + job.gpus

    def allocate(self, ordered: Sequence[PoolJob], now_s: float, *, borrowing: bool) -> None:
        """Give to each in order; what does not fit is passed over, so smaller ones fill the holes."""
        blocked = False
        for job in ordered:
            if (
                job.id in self.allocated
                or (blocked and not job.running)
                or not self._is_entitled(job, borrowing)
            ):
                continue
            if job.gpus <= self.free:
                self.take(job)
            elif job.wait_s(now_s) >= self.rules.blocking_wait_s and job.gpus <= self.gpus:
                blocked = True  # nobody new before it: the holes grow until it fits

    def _is_entitled(self, job: PoolJob, borrowing: bool) -> bool:
        tenant = self.tenants.get(job.tenant, PoolTenant())
        within = self.by_tenant.get(job.tenant, 0) + job.gpus <= tenant.quota_gpus
        return within or (borrowing and tenant.may_borrow)

    def wait_reason(self, job: PoolJob) -> str:
        if job.gpus > self.gpus:
            return f"needs {job.gpus} GPUs, the pool has {self.gpus}"
        tenant = self.tenants.get(job.tenant, PoolTenant())
        if not self._is_entitled(job, borrowing=True):
            return f"its tenant's quota of {tenant.quota_gpus} GPUs is in use and it may not borrow"
        return f"needs {job.gpus} GPUs, {max(0, self.free)} are left after those before it"


def _next_change_s(running: Sequence[PoolJob], now_s: float, rules: FairShareRules) -> float | None:
    changes = [
        now_s + (limit - job.attained_gpu_s) / job.gpus
        for job in running
        for limit in rules.bands_gpu_s
        if job.gpus and job.attained_gpu_s < limit
    ]
    protected = [job for job in running if job.checkpoints and job.is_pinned(now_s, rules)]
    changes += [(job.running_since_s or now_s) + rules.min_run_s for job in protected]
    return min(changes, default=None)
