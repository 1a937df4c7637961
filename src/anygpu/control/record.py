"""Write the events that follow from a decision about a job."""

from collections.abc import Callable

from anygpu.control.clock import Clock
from anygpu.events.types import Event
from anygpu.events.view import JobView
from anygpu.store.journal import Guard, Journal
from anygpu.store.scope import SYSTEM

DecideEvents = Callable[[JobView], list[Event]]


class EventRecorder:
    """Writes events to the journal for the control process that holds the lease."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal, self._clock = journal, clock

    async def record(self, view: JobView, decide: DecideEvents, guard: Guard) -> JobView | None:
        """Write the events that `decide` returns for the current state of the job.

        Return the new state, or None if nothing was written. If `decide` returns no events for `view`, no transaction
        is opened.
        """
        at_ms = self._clock.wall_ms()
        if not decide(view):
            return None
        written = await self._journal.transact(SYSTEM, view.id, decide, at_ms=at_ms, guard=guard)
        return written.view if written.recorded else None
