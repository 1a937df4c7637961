"""What a project does and spends now, for the sidebar of the web app."""

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic

from anygpu.api.jobs import ProjectSummary
from anygpu.events.costs import has_machine
from anygpu.events.offers import LOCAL
from anygpu.events.view import AttemptView
from anygpu.server.jobs.queue import QueueSnapshot, is_visible
from anygpu.store.journal import JobQuery, Journal
from anygpu.store.scope import Scope

REFRESH_S = 60.0


class OrphanCounter:
    """The number of machines that no job owns, as the providers last listed them.

    Providers answer slowly, so the list is read in the background while somebody asks, at most once a minute.
    """

    def __init__(self, count: Callable[[], Awaitable[int]]) -> None:
        self._count = count
        self._known: int | None = None
        self._read_at = float("-inf")
        self._reading: asyncio.Task[None] | None = None

    def newest(self) -> int | None:
        """Return the last known number; None until the providers have answered once."""
        if monotonic() - self._read_at > REFRESH_S and (self._reading is None or self._reading.done()):
            self._read_at = monotonic()
            self._reading = asyncio.create_task(self._read())
        return self._known

    async def _read(self) -> None:
        self._known = await self._count()


async def summarise_project(
    journal: Journal,
    queue: QueueSnapshot,
    scope: Scope,
    machines_without_job: int | None,
    spent: tuple[int, int],
) -> ProjectSummary:
    """Return the summary of a project. `spent` is the cost of today and of this month."""
    counts = (await journal.count(scope, JobQuery())).by_status
    live = [view for view in await queue.live() if is_visible(view, scope)]
    attempts = [each for view in live for each in view.attempts if _uses_machine(each)]
    queued = counts.get("queued", 0)
    return ProjectSummary(
        project=scope.project,
        active=queued + counts.get("running", 0),
        queued=queued,
        hourly_microusd=sum(each.hourly_microusd for each in attempts),
        machines=len(attempts),
        machines_without_job=machines_without_job,
        today_microusd=spent[0],
        month_microusd=spent[1],
    )


def _uses_machine(attempt: AttemptView) -> bool:
    return attempt.offer.backend != LOCAL and has_machine(attempt) and not attempt.is_released
