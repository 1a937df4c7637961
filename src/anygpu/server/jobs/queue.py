"""The order of waiting jobs. It is computed at most twice a second and shared by all requests."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from anygpu.control.clock import Clock
from anygpu.control.policy import ControlPolicy
from anygpu.control.schedule.queue import PoolJobCache, in_queue_order, is_waiting, queue_state
from anygpu.events.view import JobView
from anygpu.plan.fair_share import FairShareRules, PoolJob
from anygpu.store.journal import Journal
from anygpu.store.scope import Scope

MAX_AGE_S = 0.5
BANDS = ("short", "medium", "long")


@dataclass(frozen=True, slots=True)
class QueuePosition:
    """The position of a job in the queue, and the values that determine it."""

    position: int
    job: PoolJob
    band: str
    used_slot_s: float  # slot seconds that the project used recently


def is_visible(view: JobView, scope: Scope) -> bool:
    """Return whether a job belongs to the project of `scope`."""
    return (view.organisation, view.project) == (scope.organisation, scope.project)


class QueueSnapshot:
    """Live jobs of all projects, and the queue positions of waiting jobs. Callers must filter by project."""

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
        """Return the queue position of a waiting job, or None for other jobs. A job newer than the snapshot is last."""
        if view.is_terminal or view.damaged or view.live_attempt is not None:
            return None
        positions = await self.positions()
        return positions[view.id].position if view.id in positions else len(positions) + 1

    async def _refresh(self) -> None:
        if self._clock.monotonic() - self._read_at < MAX_AGE_S:
            return
        self._read_at = self._clock.monotonic()
        self._live = await self._journal.live()
        now_ms, bands = self._clock.wall_ms(), FairShareRules(bands_gpu_s=self._policy.sharing.bands_slot_s)
        intact = [view for view in self._live if not view.damaged]
        now = queue_state(intact, await self._journal.usages(), self._policy, now_ms)
        used = {name: tenant.usage.decayed(now.now_s) for name, tenant in now.tenants.items()}
        waiting = self._waiting.pool_jobs((view for view in intact if is_waiting(view)), now_ms)
        self._positions = {
            job.id: QueuePosition(position, job, BANDS[job.band(bands)], used.get(job.tenant, 0.0))
            for position, job in enumerate(in_queue_order(waiting, now), start=1)
        }
