"""Choose running jobs to preempt for waiting jobs, for one full machine at a time. Pure functions."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from anygpu.control.ids import short_id
from anygpu.control.schedule.queue import PoolState, SlotPool, SlotUse, pool_job
from anygpu.events.offers import Offer
from anygpu.events.slots import SlotKind, needed_slots
from anygpu.events.types import Event, StopRequested
from anygpu.events.view import JobView
from anygpu.plan import fair_share
from anygpu.plan.fair_share import Allocation, PoolJob
from anygpu.plan.offers.selection import Plan

MAX_WAITING = 200  # jobs considered per machine, first in the queue first


class WaitingJobs:
    """Collects, during one run of the scheduler, which jobs wait for GPUs or CPUs of which machine.

    Jobs with the same plan share an entry.
    """

    def __init__(self) -> None:
        self.waiting: dict[SlotPool, list[tuple[PoolJob, JobView]]] = {}
        self.offers: dict[SlotPool, Offer] = {}
        # By id of the plan. The value keeps the plan alive, so that its id is not reused.
        self._plans: dict[int, tuple[Plan, list[SlotPool]]] = {}

    def add(self, job: PoolJob, view: JobView, plan: Plan) -> None:
        known = self._plans.get(id(plan))
        if known is None:
            known = self._plans[id(plan)] = plan, self._pools_of(plan, needed_slots(view.spec.resources)[0])
        if known[1]:
            for spot in known[1]:
                self.waiting[spot].append((job, view))
            known[1][:] = self._with_space(known[1])

    def _with_space(self, spots: Sequence[SlotPool]) -> list[SlotPool]:
        return [spot for spot in spots if len(self.waiting[spot]) < MAX_WAITING]

    def _pools_of(self, plan: Plan, kind: SlotKind) -> list[SlotPool]:
        own = [r.offer for r in plan.ranked if r.full and r.wait_reason and not r.offer.is_paid]
        for offer in own:
            self.offers[offer.key, kind] = offer
            self.waiting.setdefault((offer.key, kind), [])
        return self._with_space([(offer.key, kind) for offer in own])


@dataclass(frozen=True, slots=True, kw_only=True)
class Preemption:
    """A running job that has to save and stop, and the waiting job that gets its GPUs or CPUs."""

    slot_use: SlotUse
    waiting_job: JobView

    def stop_events(self, fresh: JobView) -> list[Event]:
        """Return the stop request for the running job. Empty if the job has changed in the meantime."""
        live, meant = fresh.live_attempt, self.slot_use.attempt
        if live is None or live.number != meant.number or live.stop_reason or fresh.cancel_requested:
            return []
        words = (
            f"{_describe_waiting_job(fresh, self.waiting_job)}; resumes from its checkpoint when "
            "slots are free"
        )
        return [
            StopRequested(
                attempt=live.number,
                reason="preempt",
                message=f"preempted by {words}",
                makes_room_for=self.waiting_job.id,
            )
        ]


@dataclass(slots=True)
class Preemptions:
    """The chosen preemptions on all machines, and the time of the next check."""

    chosen: list[Preemption]
    check_again_s: float | None = None


def choose_preemptions(waiting_jobs: WaitingJobs, now: PoolState) -> Preemptions:
    """Choose the jobs to preempt on each machine that is full, one machine after the other.

    A job that gets GPUs or CPUs on one machine is not considered on the next.
    """
    preemptions = Preemptions([])
    if not waiting_jobs.waiting:
        return preemptions
    promised = now.promised_offers()
    by_spot: dict[SlotPool, list[SlotUse]] = {}
    for slot_use in now.slot_uses:
        by_spot.setdefault(slot_use.pool, []).append(slot_use)
    for spot, waiting in waiting_jobs.waiting.items():
        found = [each for each in waiting if promised.get(each[0].id, spot[0]) == spot[0]]
        made, look_again_s = _preempt_on_machine(
            waiting_jobs.offers[spot], spot[1], by_spot.get(spot, []), found, now
        )
        preemptions.chosen += made
        promised |= {preemption.waiting_job.id: spot[0] for preemption in made}
        times = [time for time in (preemptions.check_again_s, look_again_s) if time is not None]
        preemptions.check_again_s = min(times, default=None)
    return preemptions


def _preempt_on_machine(
    offer: Offer,
    kind: SlotKind,
    slot_uses: Sequence[SlotUse],
    waiting: Sequence[tuple[PoolJob, JobView]],
    now: PoolState,
) -> tuple[list[Preemption], float | None]:
    now_ms = round(now.now_s * 1000)
    staying = {h.view.id: h for h in slot_uses if not h.is_leaving}
    running = [pool_job(h.view, now_ms) for h in staying.values() if h.attempt is h.view.live_attempt]
    if not waiting or not any(job.checkpoints for job in running):
        return [], None
    kept = sum(h.slots for h in staying.values()) - sum(job.gpus for job in running)
    slots = max(_slots(offer, kind) - kept, sum(job.gpus for job in running))
    jobs = [*running, *(job for job, _ in waiting)]
    orders = fair_share.allocate(slots, jobs, _tenants(running, now), now.now_s, now.rules)
    views = {job.id: view for job, view in waiting}
    pairs = _match_stops(orders, {job.id: job for job in jobs}, slots - sum(job.gpus for job in running))
    return [
        Preemption(slot_use=staying[stops], waiting_job=views[starts]) for stops, starts in pairs
    ], orders.recheck_s


def _slots(offer: Offer, kind: SlotKind) -> int:
    return offer.gpu_count if kind is SlotKind.GPU else int(offer.cpus)


def _tenants(running: Sequence[PoolJob], now: PoolState) -> Mapping[str, fair_share.PoolTenant]:
    """Return the projects that share the machine, each with the part of its quota that it may use there.

    A quota counts for all machines together, so the GPUs or CPUs in use on other machines are subtracted.
    """
    here: dict[str, int] = {}
    for job in running:
        here[job.tenant] = here.get(job.tenant, 0) + job.gpus
    return {
        name: replace(
            tenant, quota_gpus=max(0, tenant.quota_gpus - now.slots_in_use[name] + here.get(name, 0))
        )
        for name, tenant in now.tenants.items()
    }


def _match_stops(orders: Allocation, jobs: Mapping[str, PoolJob], free: int) -> Iterator[tuple[str, str]]:
    """Yield pairs of a running job to stop and the waiting job that gets its GPUs or CPUs.

    As few jobs as possible are stopped, the last in the queue first.
    """
    stopping = list(orders.preempt)
    for name in orders.start:
        free -= jobs[name].gpus
        while free < 0 and stopping:
            stops = stopping.pop()
            free += jobs[stops].gpus
            yield stops, name


def _describe_waiting_job(stops: JobView, starts: JobView) -> str:
    """Return a description of the waiting job.

    The name is left out if the job belongs to another organisation.
    """
    if stops.organisation != starts.organisation:
        return "a job of another organisation"
    job = f"job {starts.name or short_id(starts.id)}"
    return job if stops.project == starts.project else f"{job} of project {starts.project}"
