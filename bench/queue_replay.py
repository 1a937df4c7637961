"""Play a trace of jobs through a pool, event by event, under a policy."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from anygpu.plan.fair_share import BANDS_GPU_S, MIN_RUN_S, PoolJob, PoolTenant, allocate


@dataclass(frozen=True)
class Submitted:
    """A line of a trace."""

    id: str
    tenant: str
    gpus: int
    at_s: float
    duration_s: float
    checkpoints: bool = True


@dataclass
class Live:
    asked: Submitted
    left_s: float
    attained_gpu_s: float = 0.0
    since_s: float | None = None
    waiting_s: float = 0.0
    starting_s: float = 0.0  # of a restart: occupies the GPUs, makes no progress
    ever: bool = False

    def pool_job(self) -> PoolJob:
        return PoolJob(
            id=self.asked.id,
            tenant=self.asked.tenant,
            gpus=self.asked.gpus,
            submitted_s=self.asked.at_s,
            attained_gpu_s=self.attained_gpu_s,
            checkpoints=self.asked.checkpoints,
            running_since_s=self.since_s,
            waiting_since_s=self.waiting_s,
        )


@dataclass
class Pool:
    """Everything a policy may look at, and (for the oracle) what it may not."""

    gpus: int
    now_s: float
    tenants: dict[str, PoolTenant]
    live: dict[str, Live] = field(default_factory=dict)

    def jobs(self) -> list[PoolJob]:
        return [each.pool_job() for each in self.live.values()]


Policy = Callable[[Pool], Collection[str]]


def fifo(pool: Pool) -> set[str]:
    """In the order of submission; who does not fit holds up those behind. Nothing is preempted."""
    chosen, free = set(), pool.gpus
    for each in pool.live.values():
        if each.asked.gpus > free and each.since_s is None:
            break
        chosen.add(each.asked.id)
        free -= each.asked.gpus
    return chosen


def filled(pool: Pool, order: Sequence[Live]) -> set[str]:
    chosen, free = set(), pool.gpus
    for each in order:
        if each.asked.gpus <= free:
            chosen.add(each.asked.id)
            free -= each.asked.gpus
    return chosen


def backfill(pool: Pool) -> set[str]:
    """In the order of submission, smaller ones fill the holes. Nothing is preempted."""
    return filled(pool, sorted(pool.live.values(), key=lambda each: each.since_s is None))


def shortest_remaining(pool: Pool) -> set[str]:
    """Preemptive shortest remaining time, by an oracle; moving costs it nothing."""
    return filled(pool, sorted(pool.live.values(), key=lambda each: (each.left_s, each.asked.at_s)))


def ours(pool: Pool) -> set[str]:
    orders = allocate(pool.gpus, pool.jobs(), pool.tenants, pool.now_s)
    running = {name for name, each in pool.live.items() if each.since_s is not None}
    return (running - set(orders.preempt)) | set(orders.start)


POLICIES: dict[str, Policy] = {
    "fifo": fifo,
    "backfill": backfill,
    "anygpu": ours,
    "shortest-remaining": shortest_remaining,
}


def completion_s(
    trace: Sequence[Submitted], gpus: int, quota_gpus: Mapping[str, int], policy: Policy, restart_s: float
) -> dict[str, float]:
    """When each job was done, from its submission."""
    tenants = {each.tenant: PoolTenant(quota_gpus=quota_gpus.get(each.tenant, 0)) for each in trace}
    pool = Pool(gpus, 0.0, tenants)
    coming = sorted(trace, key=lambda each: each.at_s)
    done: dict[str, float] = {}
    place = 0
    while place < len(coming) or pool.live:
        arrival_s = coming[place].at_s if place < len(coming) else float("inf")
        _advance(pool, min(arrival_s, _next_event_s(pool)), done)
        while place < len(coming) and coming[place].at_s <= pool.now_s:
            asked = coming[place]
            pool.live[asked.id] = Live(asked, asked.duration_s, waiting_s=asked.at_s)
            place += 1
        _obey(pool, policy(pool), restart_s)
    return done


def _next_event_s(pool: Pool) -> float:
    """The next completion, change of band, or end of the time in which a job is left alone."""
    soonest = float("inf")
    for each in pool.live.values():
        if each.since_s is None:
            continue
        soonest = min(soonest, pool.now_s + each.starting_s + each.left_s)
        left_alone_s = each.since_s + MIN_RUN_S
        if left_alone_s > pool.now_s + 1e-6:
            soonest = min(soonest, left_alone_s)
        for limit in BANDS_GPU_S:
            if each.attained_gpu_s < limit - 1e-6:
                soonest = min(soonest, pool.now_s + (limit - each.attained_gpu_s) / each.asked.gpus)
    return soonest


def _advance(pool: Pool, until_s: float, done: dict[str, float]) -> None:
    passed_s = until_s - pool.now_s
    used: dict[str, float] = {}
    for each in [each for each in pool.live.values() if each.since_s is not None]:
        used[each.asked.tenant] = used.get(each.asked.tenant, 0.0) + each.asked.gpus * passed_s
        each.attained_gpu_s += each.asked.gpus * passed_s
        worked_s = max(0.0, passed_s - each.starting_s)
        each.starting_s = max(0.0, each.starting_s - passed_s)
        each.left_s -= worked_s
        if each.left_s <= 1e-6 and not each.starting_s:
            done[each.asked.id] = until_s - each.asked.at_s
            del pool.live[each.asked.id]
    pool.now_s = until_s
    for name, gpu_s in used.items():
        tenant = pool.tenants[name]
        pool.tenants[name] = replace(tenant, usage=tenant.usage.add(gpu_s, until_s))


def _obey(pool: Pool, chosen: Collection[str], restart_s: float) -> None:
    for name, each in pool.live.items():
        if name in chosen and each.since_s is None:
            each.since_s = pool.now_s
            each.starting_s = restart_s if each.ever else 0.0
            each.ever = True
        elif name not in chosen and each.since_s is not None:
            each.since_s, each.waiting_s = None, pool.now_s
