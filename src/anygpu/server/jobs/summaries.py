"""Read and render what a list of jobs shows in addition to the states of the jobs."""

from collections.abc import Sequence

from anygpu.control.clock import Clock
from anygpu.events.view import JobView
from anygpu.server.jobs.queue import QueueSnapshot
from anygpu.server.jobs.render import JsonObject, render_summary
from anygpu.store.reports import Reports, ReportState


class SummaryReader:
    """Renders jobs in the form of `JobSummary`."""

    def __init__(self, reports: Reports, queue: QueueSnapshot, clock: Clock) -> None:
        self._reports, self._queue, self._clock = reports, queue, clock

    async def read(self, views: Sequence[JobView]) -> list[JsonObject]:
        keys = [(view.id, len(view.attempts)) for view in views if view.attempts]
        rows = await self._reports.states(keys) if keys else {}
        waiting = any(not view.is_terminal and view.live_attempt is None for view in views)
        positions = await self._queue.positions() if waiting else {}
        now_ms = self._clock.wall_ms()
        return [
            render_summary(
                view,
                rows.get((view.id, len(view.attempts)), ReportState()),
                queue_position=positions[view.id].position if view.id in positions else None,
                now_ms=now_ms,
            )
            for view in views
        ]
