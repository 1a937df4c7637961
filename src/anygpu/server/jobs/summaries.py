"""Read and render what a list of jobs shows in addition to the states of the jobs."""

from collections.abc import Mapping, Sequence

from anygpu.control.clock import Clock
from anygpu.events.view import JobView
from anygpu.server.jobs.queue import QueueSnapshot
from anygpu.server.jobs.render import JsonObject, render_summary
from anygpu.store.reports import Reports, ReportState

EARLIER_ATTEMPTS = 5  # how many attempts before the newest are searched for reports


class SummaryReader:
    """Renders jobs in the form of `JobSummary`."""

    def __init__(self, reports: Reports, queue: QueueSnapshot, clock: Clock) -> None:
        self._reports, self._queue, self._clock = reports, queue, clock

    async def read(self, views: Sequence[JobView]) -> list[JsonObject]:
        rows = await self._newest_states(views)
        earlier = await self.earlier_reports(views, rows)
        waiting = any(not view.is_terminal and view.live_attempt is None for view in views)
        positions = await self._queue.positions() if waiting else {}
        now_ms = self._clock.wall_ms()
        return [
            render_summary(
                view,
                rows.get(view.id, ReportState()),
                earlier=earlier.get(view.id, ReportState()),
                queue_position=positions[view.id].position if view.id in positions else None,
                now_ms=now_ms,
            )
            for view in views
        ]

    async def _newest_states(self, views: Sequence[JobView]) -> dict[str, ReportState]:
        keys = [(view.id, len(view.attempts)) for view in views if view.attempts]
        states = await self._reports.states(keys) if keys else {}
        return {job_id: state for (job_id, _), state in states.items()}

    async def earlier_reports(
        self, views: Sequence[JobView], newest: Mapping[str, ReportState]
    ) -> dict[str, ReportState]:
        """Return the newest progress and main metric of earlier attempts, for jobs whose newest has reported none."""
        keys = [
            (view.id, number)
            for view in views
            if len(view.attempts) > 1 and not _has_reported(newest.get(view.id, ReportState()))
            for number in range(max(1, len(view.attempts) - EARLIER_ATTEMPTS), len(view.attempts))
        ]
        states = await self._reports.states(keys) if keys else {}
        found: dict[str, ReportState] = {}
        for key in sorted(keys):
            if _has_reported(states[key]):
                found[key[0]] = states[key]
        return found


def _has_reported(state: ReportState) -> bool:
    return bool(state.progress) or state.main_metric is not None
