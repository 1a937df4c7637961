"""Who waits before whom, read at most twice a second however many ask."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from anygpu.control.clock import Clock
from anygpu.control.policy import ControlPolicy
from anygpu.control.schedule.queue import PoolJobCache, in_queue_order, is_waiting, queue_state
from anygpu.events.view import JobView
from anygpu.plan.fair_share import FairShareRules, PoolJob
from anygpu.store.journal import Journal

MAX_AGE_S = 0.5
BANDS = ("short", "medium", "long")


@dataclass(frozen=True, slots=True)
class QueuePosition:
    """Where a job stands in the queue, and what its place rests on."""

    position: int
    job: PoolJob
    band: str
    used_slot_s: float  # by its project lately


class QueueSnapshot:
    """The live jobs of everybody, in the order in which they are placed. Callers show only what is theirs."""

    def __init__(self, journal: Journal, clock: Clock, policy: ControlPolicy) -> None:
        self._journal, self._clock, self._policy = journal, clock, policy
        self._read_at = float("-inf")
        self._live: Sequence[JobView] = ()
        self._waiting = PoolJobCache()
        self._positions: Mapping[str, QueuePosition] = {}

    async def live(self) -> Sequence[JobView]:
        await self._refresh()
        return self._live

    async def positions(self) -> Mapping[str, QueuePosition]:
        await self._refresh()
        return self._positions

    async def position(self, view: JobView) -> int | None:
        """A job submitted a moment ago is not counted yet: it stands at the end."""
        if view.is_terminal or view.live_attempt is not None:
            return None
        known = await self.positions()
        return known[view.id].position if view.id in known else len(known) + 1

    async def _refresh(self) -> None:
        if self._clock.monotonic() - self._read_at < MAX_AGE_S:
            return
        self._read_at = self._clock.monotonic()
        self._live = await self._journal.live()
        now_ms, bands = self._clock.wall_ms(), FairShareRules(bands_gpu_s=self._policy.sharing.bands_slot_s)
        now = queue_state(self._live, await self._journal.usages(), self._policy, now_ms)
        used = {name: tenant.usage.decayed(now.now_s) for name, tenant in now.tenants.items()}
        waiting = self._waiting.pool_jobs((view for view in self._live if is_waiting(view)), now_ms)
        self._positions = {
            job.id: QueuePosition(place, job, BANDS[job.band(bands)], used.get(job.tenant, 0.0))
            for place, job in enumerate(in_queue_order(waiting, now), start=1)
        }
