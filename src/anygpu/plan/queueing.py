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
from anygpu.events.slots import Usage as Usage

HOUR_S = 3600.0
BANDS_GPU_S = (1 * HOUR_S, 32 * HOUR_S)  # under 1 GPU-hour, under 32, and beyond
RUNS_AT_LEAST_S = 600.0  # what was started is left alone for so long: moving costs time too
PATIENCE_S = 24 * HOUR_S  # who has waited so long goes first


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The numbers the policy goes by."""

    bands_gpu_s: tuple[float, ...] = BANDS_GPU_S
    runs_at_least_s: float = RUNS_AT_LEAST_S
    patience_s: float = PATIENCE_S
    overtaken_s: float = (
        PATIENCE_S  # while somebody who has waited so long does not fit, nobody behind it starts
    )


USUAL = Rules()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """Who shares the pool. The quota is always theirs; what others leave idle they may borrow."""

    quota_gpus: int = 0
    usage: Usage = field(default_factory=Usage)
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

    def band(self, rules: Rules = USUAL) -> int:
        return bisect_right(rules.bands_gpu_s, self.attained_gpu_s)

    def waited_s(self, now_s: float) -> float:
        """How long it has waited; nothing while it runs."""
        since_s = self.submitted_s if self.waiting_since_s is None else self.waiting_since_s
        return 0.0 if self.running else now_s - since_s

    def starved(self, now_s: float, rules: Rules = USUAL) -> bool:
        since_s = self.submitted_s if self.waiting_since_s is None else self.waiting_since_s
        return self.running_since_s is None and now_s - since_s >= rules.patience_s

    def pinned(self, now_s: float, rules: Rules = USUAL) -> bool:
        """Whether it may not be preempted now."""
        since_s = self.running_since_s
        return since_s is not None and (not self.checkpoints or now_s - since_s < rules.runs_at_least_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """What to do now; first preempt, then start when the GPUs are free."""

    start: tuple[str, ...] = ()
    preempt: tuple[str, ...] = ()
    waits: Mapping[str, str] = field(default_factory=dict)  # why, for the person who waits
    look_again_s: float | None = (
        None  # when a running job changes its band or may be preempted, at the earliest
    )


def decide(
    gpus: int, jobs: Sequence[PoolJob], tenants: Mapping[str, Tenant], now_s: float, rules: Rules = USUAL
) -> Orders:
    """Which jobs of the pool run from now on."""
    ordered = in_order(jobs, tenants, now_s, rules)
    given = _Given(gpus, tenants, rules)
    for job in ordered:
        if job.pinned(now_s, rules):
            given.take(job)
    given.walk(ordered, now_s, borrowing=False)
    given.walk(ordered, now_s, borrowing=True)
    return Orders(
        start=tuple(job.id for job in ordered if job.id in given.to and not job.running),
        preempt=tuple(job.id for job in ordered if job.id not in given.to and job.running),
        waits={job.id: given.why(job) for job in ordered if job.id not in given.to},
        look_again_s=_next_change_s([job for job in ordered if job.id in given.to], now_s, rules),
    )


def in_order(
    jobs: Sequence[PoolJob], tenants: Mapping[str, Tenant], now_s: float, rules: Rules = USUAL
) -> list[PoolJob]:
    """Best first. Within a band what runs goes on: a tenant's usage decides who starts, not who stops."""
    usage = {name: tenant.usage.now(now_s) for name, tenant in tenants.items()}

    def key(job: PoolJob) -> tuple[bool, int, int, bool, float, float, str]:
        used = usage.get(job.tenant, 0.0)
        band, waits = bisect_right(rules.bands_gpu_s, job.attained_gpu_s), job.running_since_s is None
        return not job.starved(now_s, rules), -job.priority, band, waits, used, job.submitted_s, job.id

    return sorted(jobs, key=key)


class _Given:
    """GPUs as they are given out."""

    def __init__(self, gpus: int, tenants: Mapping[str, Tenant], rules: Rules) -> None:
        self.gpus, self.free = gpus, gpus
        self.tenants, self.rules = tenants, rules
        self.to: set[str] = set()
        self.by_tenant: dict[str, int] = {}

    def take(self, job: PoolJob) -> None:
        self.to.add(job.id)
        self.free -= job.gpus
        self.by_tenant[job.tenant] = self.by_tenant.get(job.tenant, 0) + job.gpus

    def walk(self, ordered: Sequence[PoolJob], now_s: float, *, borrowing: bool) -> None:
        """Give to each in order; what does not fit is passed over, so smaller ones fill the holes."""
        held = False
        for job in ordered:
            if job.id in self.to or (held and not job.running) or not self._entitled(job, borrowing):
                continue
            if job.gpus <= self.free:
                self.take(job)
            elif job.waited_s(now_s) >= self.rules.overtaken_s and job.gpus <= self.gpus:
                held = True  # nobody new before it: the holes grow until it fits

    def _entitled(self, job: PoolJob, borrowing: bool) -> bool:
        tenant = self.tenants.get(job.tenant, Tenant())
        within = self.by_tenant.get(job.tenant, 0) + job.gpus <= tenant.quota_gpus
        return within or (borrowing and tenant.may_borrow)

    def why(self, job: PoolJob) -> str:
        if job.gpus > self.gpus:
            return f"needs {job.gpus} GPUs, the pool has {self.gpus}"
        tenant = self.tenants.get(job.tenant, Tenant())
        if not self._entitled(job, borrowing=True):
            return f"its tenant's quota of {tenant.quota_gpus} GPUs is in use and it may not borrow"
        return f"needs {job.gpus} GPUs, {max(0, self.free)} are left after those before it"


def _next_change_s(running: Sequence[PoolJob], now_s: float, rules: Rules) -> float | None:
    changes = [
        now_s + (limit - job.attained_gpu_s) / job.gpus
        for job in running
        for limit in rules.bands_gpu_s
        if job.gpus and job.attained_gpu_s < limit
    ]
    left_alone = [job for job in running if job.checkpoints and job.pinned(now_s, rules)]
    changes += [(job.running_since_s or now_s) + rules.runs_at_least_s for job in left_alone]
    return min(changes, default=None)
