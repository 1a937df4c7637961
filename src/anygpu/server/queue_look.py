"""Who waits before whom, read at most twice a second however many ask."""

from collections.abc import Mapping, Sequence

from anygpu.control.policy import Policy
from anygpu.control.queue import in_order, queue_positions
from anygpu.control.seams import Clock
from anygpu.events.view import JobView
from anygpu.store.journal import Journal

AGE_S = 0.5


class QueueLook:
    """The live jobs of everybody, in the order in which they are placed. Callers show only what is theirs."""

    def __init__(self, journal: Journal, clock: Clock, policy: Policy) -> None:
        self._journal, self._clock, self._policy = journal, clock, policy
        self._read_at = float("-inf")
        self._live: Sequence[JobView] = ()
        self._positions: Mapping[str, int] = {}

    async def live(self) -> Sequence[JobView]:
        await self._refresh()
        return self._live

    async def positions(self) -> Mapping[str, int]:
        await self._refresh()
        return self._positions

    async def position(self, view: JobView) -> int | None:
        """A job submitted a moment ago is not counted yet: it stands at the end."""
        if view.terminal or view.live_attempt is not None:
            return None
        known = await self.positions()
        return known.get(view.id, len(known) + 1)

    async def _refresh(self) -> None:
        if self._clock.monotonic() - self._read_at < AGE_S:
            return
        self._read_at = self._clock.monotonic()
        self._live = await self._journal.live()
        self._positions = queue_positions(in_order(self._live, self._clock.wall_ms(), self._policy))
