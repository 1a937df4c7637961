"""The order of waiting jobs. It is computed at most twice a second and shared by all requests."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from anygpu.control.clock import Clock
from anygpu.control.policy import ControlPolicy
from anygpu.control.schedule.own_wait import SlotForecast, remaining_run_s
from anygpu.control.schedule.queue import PoolJobCache, SlotUse, in_queue_order, is_waiting, queue_state
from anygpu.events.slots import needed_slots
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
    wait_s: float | None  # predicted seconds until it starts; None if that cannot be predicted


def is_visible(view: JobView, scope: Scope) -> bool:
    """Return whether a job belongs to the project of `scope`."""
    return (view.organisation, view.project) == (scope.organisation, scope.project)


def predicted_waits(
    views: Mapping[str, JobView], waiting: Iterable[PoolJob], slot_uses: Iterable[SlotUse], now_ms: int
) -> dict[str, float]:
    """Predict when waiting jobs start, if the running jobs and the jobs before them in the queue have predictions.

    For this prediction, the GPUs of all own machines count as one machine, and so do the CPUs.
    """
    forecast = SlotForecast((use.pool[1], use.slots, remaining_run_s(use.view, now_ms)) for use in slot_uses)
    found: dict[str, float] = {}
    for view in (views[job.id] for job in waiting):
        kind, slots = needed_slots(view.spec.resources)
        found[view.id] = forecast.wait_s(kind, slots)
        forecast.add(kind, slots, view.spec.placement.expected_duration_s or inf)
    return {job_id: seconds for job_id, seconds in found.items() if seconds < inf}


class QueueSnapshot:
    """All live jobs at one moment, and the queue positions of waiting jobs. Callers must filter by project."""

    def __init__(self, journal: Journal, clock: Clock, policy: ControlPolicy) -> None:
        self._journal, self._clock, self._policy = journal, clock, policy
        self._read_at = float("-inf")
        self._refreshing = asyncio.Lock()
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

    async def wait_s(self, view: JobView) -> float | None:
        """Return the predicted seconds until a waiting job starts; None if that cannot be predicted."""
        if view.is_terminal or view.damaged or view.live_attempt is not None:
            return None
        found = (await self.positions()).get(view.id)
        return None if found is None else found.wait_s

    async def _refresh(self) -> None:
        """Read the jobs if the snapshot is too old. Callers that arrive meanwhile wait for the same snapshot."""
        async with self._refreshing:
            if self._clock.monotonic() - self._read_at >= MAX_AGE_S:
                now = self._clock.monotonic()
                await self._read()
                self._read_at = now

    async def _read(self) -> None:
        self._live = await self._journal.live()
        now_ms, bands = self._clock.wall_ms(), FairShareRules(bands_gpu_s=self._policy.sharing.bands_slot_s)
        intact = [view for view in self._live if not view.damaged]
        now = queue_state(intact, await self._journal.usages(), self._policy, now_ms)
        used = {name: tenant.usage.decayed(now.now_s) for name, tenant in now.tenants.items()}
        waiting = self._waiting.pool_jobs((view for view in intact if is_waiting(view)), now_ms)
        ordered = in_queue_order(waiting, now)
        waits = predicted_waits({view.id: view for view in intact}, ordered, now.slot_uses, now_ms)
        self._positions = {
            job.id: QueuePosition(
                position, job, BANDS[job.band(bands)], used.get(job.tenant, 0.0), waits.get(job.id)
            )
            for position, job in enumerate(ordered, start=1)
        }
