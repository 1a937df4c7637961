"""Who waits before whom, read at most twice a second however many ask."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from anygpu.control.policy import Policy
from anygpu.control.pool import Waiting, in_turn, standing
from anygpu.control.queue import wants_a_place
from anygpu.control.seams import Clock
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

    def __init__(self, journal: Journal, clock: Clock, policy: Policy) -> None:
        self._journal, self._clock, self._policy = journal, clock, policy
        self._read_at = float("-inf")
        self._live: Sequence[JobView] = ()
        self._waiting = Waiting()
        self._positions: Mapping[str, QueuePosition] = {}

    async def live(self) -> Sequence[JobView]:
        await self._refresh()
        return self._live

    async def positions(self) -> Mapping[str, QueuePosition]:
        await self._refresh()
        return self._positions

    async def position(self, view: JobView) -> int | None:
        """A job submitted a moment ago is not counted yet: it stands at the end."""
        if view.terminal or view.live_attempt is not None:
            return None
        known = await self.positions()
        return known[view.id].position if view.id in known else len(known) + 1

    async def _refresh(self) -> None:
        if self._clock.monotonic() - self._read_at < MAX_AGE_S:
            return
        self._read_at = self._clock.monotonic()
        self._live = await self._journal.live()
        now_ms, bands = self._clock.wall_ms(), FairShareRules(bands_gpu_s=self._policy.sharing.bands_slot_s)
        now = standing(self._live, await self._journal.usages(), self._policy, now_ms)
        used = {name: tenant.usage.now(now.now_s) for name, tenant in now.tenants.items()}
        waiting = self._waiting.of((view for view in self._live if wants_a_place(view)), now_ms)
        self._positions = {
            job.id: QueuePosition(place, job, BANDS[job.band(bands)], used.get(job.tenant, 0.0))
            for place, job in enumerate(in_turn(waiting, now), start=1)
        }
