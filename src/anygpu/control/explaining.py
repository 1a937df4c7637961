"""Jobs that were placed without a comparison get one afterwards, so that each can say what it was expected to take."""

from collections.abc import Awaitable, Callable, Sequence

from anygpu.control.comparing import Compared, Comparing, work_key
from anygpu.control.seams import Clock
from anygpu.events.facts import Offer
from anygpu.events.types import Event
from anygpu.events.view import JobView
from anygpu.store.journal import Guard, Journal
from anygpu.store.scope import SYSTEM

OffersFor = Callable[[JobView], Awaitable[list[Offer]]]
PAUSE_S = 0.05  # between two: nobody waits for it, and others do for the loop
AT_ONCE = 50


def is_unexplained(view: JobView) -> bool:
    """It has a place, and nothing says why that one."""
    return view.live_attempt is not None and not view.plan and view.predicted is None


class Explaining:
    """Beside the rounds, and never in a hurry."""

    def __init__(self, journal: Journal, offers: OffersFor, comparing: Comparing, clock: Clock) -> None:
        self._journal, self._offers = journal, offers
        self._comparing, self._clock = comparing, clock

    async def run(self, views: Sequence[JobView], guard: Guard) -> list[JobView]:
        """The jobs that changed. Jobs that are the same work are compared once."""
        known: dict[object, Compared] = {}
        changed = []
        for view in views:
            key = view.organisation, work_key(view)
            if key not in known:
                known[key] = await self._comparing.compare(view, await self._offers(view))
            changed += await self._explain(view, known[key], guard)
            await self._clock.sleep(PAUSE_S)
        return changed

    async def _explain(self, view: JobView, compared: Compared, guard: Guard) -> list[JobView]:
        live = view.live_attempt
        if live is None:
            return []
        told = await self._comparing.kept(view, compared, live.offer)
        if not told.plan and told.prediction is None:
            return []

        def explain(fresh: JobView) -> list[Event]:
            return [told] if is_unexplained(fresh) else []

        at_ms = self._clock.wall_ms()
        written = await self._journal.transact(SYSTEM, view.id, explain, at_ms=at_ms, guard=guard)
        return [written.view] if written.recorded else []
