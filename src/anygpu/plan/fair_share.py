"""Decide which jobs run on the GPUs of a machine (the pool) that several projects (the tenants) share.

Each tenant has a quota of GPUs and may be allowed to borrow idle ones. Jobs that have waited for a day go first. The
others are sorted by priority, then by the GPU time they have used, then by their tenant's recent usage, then by
submission time. The duration of a job is not known in advance, so jobs that have used little GPU time go first: most
jobs are short, and a long job loses little by waiting for a short one. docs/explanation/queue.md has the measurements.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from anygpu.events.slots import SlotUsage

HOUR_S = 3600.0
BANDS_GPU_S = (1 * HOUR_S, 32 * HOUR_S)  # three bands of used GPU time: under 1 GPU-hour, under 32, and more
MIN_RUN_S = 600.0  # a job runs at least this long before it may be preempted
STARVATION_S = 24 * HOUR_S  # jobs that have waited longer go first


@dataclass(frozen=True, slots=True, kw_only=True)
class FairShareRules:
    """Time limits by which `allocate` decides which jobs run first and which may be preempted."""

    bands_gpu_s: tuple[float, ...] = BANDS_GPU_S
    min_run_s: float = MIN_RUN_S
    starvation_s: float = STARVATION_S
    blocking_wait_s: float = STARVATION_S  # a job that waited longer and does not fit blocks later jobs


DEFAULT_RULES = FairShareRules()


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolTenant:
    """A project that shares the GPUs: its guaranteed GPUs, its recent usage, and whether it may borrow others."""

    quota_gpus: int = 0
    usage: SlotUsage = field(default_factory=SlotUsage)
    may_borrow: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolJob:
    """A job that runs on the shared GPUs or waits for them."""

    id: str
    tenant: str
    gpus: int
    submitted_s: float
    priority: int = 0  # higher goes first
    attained_gpu_s: float = 0.0  # over all attempts of the job
    checkpoints: bool = False  # only jobs with checkpoints are preempted
    running_since_s: float | None = None
    waiting_since_s: float | None = None  # when the job last stopped running; None if it never ran
    start_requested_s: float | None = None  # when a user asked to start it before others of its tenant

    @property
    def running(self) -> bool:
        return self.running_since_s is not None

    def band(self, rules: FairShareRules = DEFAULT_RULES) -> int:
        return bisect_right(rules.bands_gpu_s, self.attained_gpu_s)

    def wait_s(self, now_s: float) -> float:
        """Return how many seconds the job has waited since it was submitted or last ran; 0 while it runs."""
        since_s = self.submitted_s if self.waiting_since_s is None else self.waiting_since_s
        return 0.0 if self.running else now_s - since_s

    def is_starved(self, now_s: float, rules: FairShareRules = DEFAULT_RULES) -> bool:
        since_s = self.submitted_s if self.waiting_since_s is None else self.waiting_since_s
        return self.running_since_s is None and now_s - since_s >= rules.starvation_s

    def is_pinned(self, now_s: float, rules: FairShareRules = DEFAULT_RULES) -> bool:
        """Return whether the job must keep running: it has no checkpoints, or it started too recently."""
        since_s = self.running_since_s
        return since_s is not None and (not self.checkpoints or now_s - since_s < rules.min_run_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """The jobs to preempt now, the jobs to start once their GPUs are free, and why the others wait."""

    start: tuple[str, ...] = ()
    preempt: tuple[str, ...] = ()
    wait_reasons: Mapping[str, str] = field(default_factory=dict)
    recheck_s: float | None = (
        None  # the earliest time at which a running job changes band or becomes preemptible
    )


def allocate(
    gpus: int,
    jobs: Sequence[PoolJob],
    tenants: Mapping[str, PoolTenant],
    now_s: float,
    rules: FairShareRules = DEFAULT_RULES,
) -> Allocation:
    """Decide which jobs run from now on, on a machine with `gpus` GPUs. A pure function."""
    ordered = sort_jobs(jobs, tenants, now_s, rules)
    pool = _Pool(gpus, tenants, rules)
    for job in ordered:
        if job.is_pinned(now_s, rules):
            pool.take(job)
    pool.allocate(ordered, now_s, borrowing=False)
    pool.allocate(ordered, now_s, borrowing=True)
    return Allocation(
        start=tuple(job.id for job in ordered if job.id in pool.allocated and not job.running),
        preempt=tuple(job.id for job in ordered if job.id not in pool.allocated and job.running),
        wait_reasons={job.id: pool.wait_reason(job) for job in ordered if job.id not in pool.allocated},
        recheck_s=_next_change_s([job for job in ordered if job.id in pool.allocated], now_s, rules),
    )


def sort_jobs(
    jobs: Sequence[PoolJob],
    tenants: Mapping[str, PoolTenant],
    now_s: float,
    rules: FairShareRules = DEFAULT_RULES,
) -> list[PoolJob]:
    """Return the jobs in the order in which they should get GPUs.

    Jobs are first compared by priority and by a band of the GPU time they have used: short, medium or long. Within
    these, running jobs come before waiting ones. So a project's usage decides which waiting job starts next, but never
    stops a running job.
    """
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
    """The GPUs that are still free, and the jobs that have been given GPUs so far."""

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
        """Give GPUs to the jobs in order. With `borrowing`, a project may also get more than its quota.

        A job that needs more GPUs than are free is skipped, so that smaller jobs behind it can use them.
        """
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
                blocked = True  # start no later job, so that GPUs accumulate until this one fits

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
        return f"needs {job.gpus} GPUs, {max(0, self.free)} are free after the jobs ahead of it"


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
