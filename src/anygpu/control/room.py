"""Who stops so that another can start: the queue's policy for one full machine after the other. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from anygpu.control.pool import Holding, Spot, Standing, pool_job
from anygpu.events.facts import Offer
from anygpu.events.slots import SlotKind, slots_of
from anygpu.events.types import Event, StopRequested
from anygpu.events.view import JobView
from anygpu.plan import fair_share
from anygpu.plan.fair_share import Allocation, PoolJob
from anygpu.plan.offers.fit import Plan

LOOKED_AT = 200  # of those that wait for one machine: the first in the queue


class Full:
    """Gathers during a pass which jobs wait for a slot of which machine. Jobs that wait for the same share a plan."""

    def __init__(self) -> None:
        self.waiting: dict[Spot, list[tuple[PoolJob, JobView]]] = {}
        self.offers: dict[Spot, Offer] = {}
        self._plans: dict[
            int, tuple[Plan, list[Spot]]
        ] = {}  # the plan itself too: an id alone may be used again

    def add(self, job: PoolJob, view: JobView, plan: Plan) -> None:
        known = self._plans.get(id(plan))
        if known is None:
            known = self._plans[id(plan)] = plan, self._spots(plan, slots_of(view.spec.resources)[0])
        if known[1]:
            for spot in known[1]:
                self.waiting[spot].append((job, view))
            known[1][:] = self._open(known[1])

    def _open(self, spots: Sequence[Spot]) -> list[Spot]:
        return [spot for spot in spots if len(self.waiting[spot]) < LOOKED_AT]

    def _spots(self, plan: Plan, kind: SlotKind) -> list[Spot]:
        own = [r.offer for r in plan.ranked if r.full and r.wait_reason and not r.offer.paid]
        for offer in own:
            self.offers[offer.place, kind] = offer
            self.waiting.setdefault((offer.place, kind), [])
        return self._open([(offer.place, kind) for offer in own])


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """A running job that is to save and stop, and the one that gets its slots."""

    holding: Holding
    job: JobView

    def stop(self, fresh: JobView) -> list[Event]:
        """Nothing if it has changed meanwhile."""
        live, meant = fresh.live_attempt, self.holding.attempt
        if live is None or live.number != meant.number or live.stop_reason or fresh.cancel_requested:
            return []
        words = f"{_for_whom(fresh, self.job)}; goes on from its checkpoint when there is room"
        return [
            StopRequested(
                attempt=live.number,
                reason="preempt",
                message=f"makes room for {words}",
                makes_room_for=self.job.id,
            )
        ]


@dataclass(slots=True)
class Rooms:
    """What follows for all machines: who stops for whom, and when to look again."""

    made: list[Room]
    look_again_s: float | None = None


def make_room(full: Full, now: Standing) -> Rooms:
    """Machine by machine; who gets room on one is not looked at on the next."""
    rooms = Rooms([])
    promised = now.promised()
    by_spot: dict[Spot, list[Holding]] = {}
    for holding in now.holdings:
        by_spot.setdefault(holding.spot, []).append(holding)
    for spot, waiting in full.waiting.items():
        found = [each for each in waiting if promised.get(each[0].id, spot[0]) == spot[0]]
        made, look_again_s = _on(full.offers[spot], spot[1], by_spot.get(spot, []), found, now)
        rooms.made += made
        promised |= {room.job.id: spot[0] for room in made}
        times = [time for time in (rooms.look_again_s, look_again_s) if time is not None]
        rooms.look_again_s = min(times, default=None)
    return rooms


def _on(
    offer: Offer,
    kind: SlotKind,
    holdings: Sequence[Holding],
    waiting: Sequence[tuple[PoolJob, JobView]],
    now: Standing,
) -> tuple[list[Room], float | None]:
    now_ms = round(now.now_s * 1000)
    staying = {h.view.id: h for h in holdings if not h.leaves}
    running = [pool_job(h.view, now_ms) for h in staying.values() if h.attempt is h.view.live_attempt]
    if not waiting or not any(job.checkpoints for job in running):
        return [], None
    kept = sum(h.slots for h in staying.values()) - sum(job.gpus for job in running)
    slots = max(_slots(offer, kind) - kept, sum(job.gpus for job in running))
    jobs = [*running, *(job for job, _ in waiting)]
    orders = fair_share.allocate(slots, jobs, _tenants(running, now), now.now_s, now.rules)
    views = {job.id: view for job, view in waiting}
    pairs = _pairs(orders, {job.id: job for job in jobs}, slots - sum(job.gpus for job in running))
    return [Room(holding=staying[stops], job=views[starts]) for stops, starts in pairs], orders.recheck_s


def _slots(offer: Offer, kind: SlotKind) -> int:
    return offer.gpu_count if kind is SlotKind.GPU else int(offer.cpus)


def _tenants(running: Sequence[PoolJob], now: Standing) -> Mapping[str, fair_share.PoolTenant]:
    """A quota counts on all machines together: what is in use elsewhere is not left for this one."""
    here: dict[str, int] = {}
    for job in running:
        here[job.tenant] = here.get(job.tenant, 0) + job.gpus
    return {
        name: replace(tenant, quota_gpus=max(0, tenant.quota_gpus - now.held[name] + here.get(name, 0)))
        for name, tenant in now.tenants.items()
    }


def _pairs(orders: Allocation, jobs: Mapping[str, PoolJob], free: int) -> Iterator[tuple[str, str]]:
    """Who stops for whom: no more than it takes, and the last in the queue's order first."""
    stopping = list(orders.preempt)
    for name in orders.start:
        free -= jobs[name].gpus
        while free < 0 and stopping:
            stops = stopping.pop()
            free += jobs[stops].gpus
            yield stops, name


def _for_whom(stops: JobView, starts: JobView) -> str:
    """Organisations do not hear of each other's jobs."""
    if stops.organisation != starts.organisation:
        return "a job of another organisation"
    job = f"job {starts.name or starts.id[:8]}"
    return job if stops.project == starts.project else f"{job} of project {starts.project}"
