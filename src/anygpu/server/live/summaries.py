"""Summaries of jobs that changed, for the followers of a project.

A project has a `SummaryFeed` only while somebody follows it. The feed collects the ids of jobs whose events or reports
changed, reads and renders each of them at most once a second, and gives the text to all followers. Only the newest
summary of a job matters, so a slow follower keeps one text for each job that changed.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from time import monotonic

from anygpu.errors import NotFound
from anygpu.events.view import JobView
from anygpu.server.encoding import dumps
from anygpu.server.jobs.render import JsonObject
from anygpu.server.live.hub import Hub
from anygpu.server.live.stream import MessageBatch
from anygpu.store.journal import Journal
from anygpu.store.scope import Scope
from anygpu.tenancy.stream_access import StreamAccess

MIN_INTERVAL_S = 1.0  # between two summaries of one job
COLLECT_S = 0.05  # changes within this time are rendered together
TICK_S = 5.0  # the cost of rented machines grows without events
MAX_PER_MESSAGE = 200
MAX_REPLAYED_EVENTS = 2000
MAX_FOREIGN = 10_000

RenderJobs = Callable[[Sequence[JobView]], Awaitable[list[JsonObject]]]
ReportFailure = Callable[[str, Exception], None]


class SummarySubscription:
    """The summaries that one follower has not been sent yet, the newest of each job."""

    def __init__(self) -> None:
        self._pending: dict[str, str] = {}
        self._changed = asyncio.Event()

    def put(self, job_id: str, text: str) -> None:
        self._pending.pop(job_id, None)  # so that the order is that of the newest texts
        self._pending[job_id] = text
        self._changed.set()

    def put_older(self, job_id: str, text: str) -> None:
        """Add a summary that was read earlier, unless a newer one is there."""
        self._pending.setdefault(job_id, text)
        self._changed.set()

    def take(self) -> MessageBatch:
        job_ids = list(self._pending)[:MAX_PER_MESSAGE]
        texts = [self._pending.pop(job_id) for job_id in job_ids]
        if not self._pending:
            self._changed.clear()
        return texts

    def wake(self) -> None:
        self._changed.set()

    async def wait(self) -> None:
        await self._changed.wait()


class SummaryFeed:
    """The changed jobs of one project, and the followers who are told."""

    def __init__(self, scope: Scope, sources: "SummarySources") -> None:
        self._scope, self._sources = scope, sources
        self.subscriptions: set[SummarySubscription] = set()
        self._changed: dict[str, None] = {}
        self._rendered_at: dict[str, float] = {}
        self._shown: dict[str, int] = {}  # hash of the newest text of each active job
        self._foreign: set[str] = set()  # jobs of other projects that reported
        self._wake = asyncio.Event()
        self._position: int | None = None  # of the newest event that was polled

    def mark(self, job_id: str) -> None:
        """Note that a job, possibly of another project, has changed."""
        if job_id not in self._foreign:
            self._changed[job_id] = None
            self._wake.set()

    async def run(self) -> None:
        """Publish summaries of changed jobs until cancelled."""
        next_tick = 0.0 if self._sources.polls else monotonic() + self._sources.tick_s
        while True:
            with suppress(TimeoutError):  # then a job is due, or the next tick is
                await asyncio.wait_for(self._wake.wait(), self._wait_s(next_tick))
                await asyncio.sleep(COLLECT_S)
            self._wake.clear()
            try:
                if monotonic() >= next_tick:
                    next_tick = monotonic() + self._sources.tick_s
                    await self._mark_running()
                    if self._sources.polls:
                        await self._mark_events()
                await self._publish_due()
            except Exception as error:  # noqa: BLE001  the next round tries again
                self._sources.report_failure("summaries of jobs could not be read; will retry", error)
                await asyncio.sleep(MIN_INTERVAL_S)

    def _wait_s(self, next_tick: float) -> float:
        due = [self._rendered_at.get(job_id, 0.0) + MIN_INTERVAL_S for job_id in self._changed]
        return max(0.0, min(due, default=next_tick) - monotonic())

    async def _mark_running(self) -> None:
        """Note the jobs whose cost grows; with other server processes, also jobs that may have reported to those."""
        for view in await self._sources.running_jobs(self._scope):
            attempt = view.live_attempt
            if self._sources.polls or (attempt is not None and attempt.hourly_microusd):
                self._changed[view.id] = None

    async def _mark_events(self) -> None:
        """Note the jobs with new events, which another server process may have written."""
        journal, scope = self._sources.journal, self._scope
        if self._position is None:
            self._position = await journal.head(scope)
        events = await journal.events(scope, after=self._position, limit=MAX_REPLAYED_EVENTS)
        for each in events:
            self._changed[each.job_id] = None
            self._position = each.position

    async def _publish_due(self) -> None:
        now = monotonic()
        self._rendered_at = {each: at for each, at in self._rendered_at.items() if at + MIN_INTERVAL_S > now}
        due = [job_id for job_id in self._changed if job_id not in self._rendered_at]
        for job_id in due:
            del self._changed[job_id]
            self._rendered_at[job_id] = now
        try:
            await self._publish(due)
        except Exception:
            self._changed.update(dict.fromkeys(due))
            raise

    async def _publish(self, job_ids: Sequence[str]) -> None:
        views = [view for job_id in job_ids if (view := await self._find(job_id)) is not None]
        for view, text in zip(views, await self._sources.render(views), strict=True):
            if self._is_new(view, text):
                for subscription in self.subscriptions:
                    subscription.put(view.id, text)

    async def _find(self, job_id: str) -> JobView | None:
        try:
            return await self._sources.journal.view(self._scope, job_id)
        except NotFound:
            if len(self._foreign) >= MAX_FOREIGN:
                self._foreign.clear()
            self._foreign.add(job_id)
            return None

    def _is_new(self, view: JobView, text: str) -> bool:
        if view.is_terminal:
            self._shown.pop(view.id, None)
            return True
        before, self._shown[view.id] = self._shown.get(view.id), hash(text)
        return before != self._shown[view.id]


class SummarySources:
    """What feeds read: the journal, live jobs and rendered summaries."""

    def __init__(
        self,
        journal: Journal,
        render_jobs: RenderJobs,
        live_jobs: Callable[[], Awaitable[Sequence[JobView]]],
        report_failure: ReportFailure,
        poll_s: float | None,
    ) -> None:
        self.journal = journal
        self._render_jobs = render_jobs
        self._live_jobs = live_jobs
        self.report_failure = report_failure
        self.polls = poll_s is not None
        self.tick_s = TICK_S if poll_s is None else max(poll_s, MIN_INTERVAL_S)

    async def running_jobs(self, scope: Scope) -> list[JobView]:
        """Return the jobs of the project that have a live attempt."""
        return [
            view
            for view in await self._live_jobs()
            if (view.organisation, view.project) == (scope.organisation, scope.project)
            and view.live_attempt is not None
        ]

    async def render(self, views: Sequence[JobView]) -> list[str]:
        """Return the messages with the summaries of these jobs."""
        summaries = await self._render_jobs(views) if views else []
        return [dumps({"kind": "summary", "job": each}) for each in summaries]

    async def catch_up(self, scope: Scope, after: int) -> dict[str, str]:
        """Return the messages for a new follower: running jobs, and jobs with events after `after`, by job id."""
        views = {view.id: view for view in await self.running_jobs(scope)}
        events = await self.journal.events(scope, after=after, limit=MAX_REPLAYED_EVENTS)
        for job_id in {each.job_id for each in events} - views.keys():
            try:
                views[job_id] = await self.journal.view(scope, job_id)
            except NotFound:
                continue  # deleted
        return dict(zip(views, await self.render(list(views.values())), strict=True))


class SummaryFeeds:
    """The feeds of all projects that somebody follows."""

    def __init__(self, sources: SummarySources, hub: Hub) -> None:
        self._sources, self._hub = sources, hub
        self._feeds: dict[tuple[str, str], tuple[SummaryFeed, asyncio.Task[None]]] = {}

    @contextmanager
    def _subscribe(self, scope: Scope) -> Iterator[SummarySubscription]:
        key = (scope.organisation, scope.project)
        if key not in self._feeds:
            feed = SummaryFeed(scope, self._sources)
            self._feeds[key] = (feed, asyncio.create_task(feed.run()))
            self._hub.add_listener(key, feed.mark)
        feed, task = self._feeds[key]
        subscription = SummarySubscription()
        feed.subscriptions.add(subscription)
        try:
            yield subscription
        finally:
            feed.subscriptions.discard(subscription)
            if not feed.subscriptions:
                self._hub.remove_listener(key)
                del self._feeds[key]
                task.cancel()

    async def follow(
        self, scope: Scope, after: int, access: StreamAccess
    ) -> AsyncGenerator[MessageBatch, None]:
        """Yield summaries of running jobs and of jobs that changed after `after`, and then of each job that changes."""
        with self._subscribe(scope) as subscription:
            access.call_at_end(subscription.wake)
            for job_id, text in (await self._sources.catch_up(scope, after)).items():
                subscription.put_older(job_id, text)
            while not self._hub.closing:
                access.require()
                if texts := subscription.take():
                    yield texts
                else:
                    await subscription.wait()
