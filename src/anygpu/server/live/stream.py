"""Streams: first the past messages after a cursor, then new ones.

The generators yield messages, which the routes send as NDJSON or over a WebSocket. Every message is delivered once.
A follower (the stream of one client) notes the counters of the change signal before it reads, so a commit during the
read makes it read again.
"""

import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from time import monotonic

from anygpu.events.view import JobView
from anygpu.server.live.hub import ChangeSignal, EventFeed, Hub, StreamEntry, stream_entry
from anygpu.server.live.reports import ReportReader
from anygpu.store.journal import Journal
from anygpu.store.reports import Reports
from anygpu.store.scope import Scope
from anygpu.tenancy.stream_access import StreamAccess

EVENTS_PER_READ = 500
REPORT_INTERVAL_S = 0.05  # a chart needs no more than 20 updates a second
PING_INTERVAL_S = 15.0
PING = '{"kind":"ping"}'
ALL_KINDS = frozenset({"events", "logs", "metrics", "progress"})
ATTEMPT_EVENTS = frozenset(
    {"AttemptLaunching", "AttemptEnded", "AttemptLost", "JobCompleted", "JobFailed", "JobCancelled"}
)

MessageBatch = list[str]
_END = '{"kind": "end"'


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPosition:
    """The position of a client: its last event, and how much it has of one attempt's log and metrics.

    `node` is the machine whose log the client follows, of a job on several machines.
    """

    after: int = 0
    attempt: int = 0
    log: int = 0
    point: int = 0
    node: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSources:
    """The stores and the hub that followers read from.

    `poll_s`: polling interval if other processes write to the database too, else None.
    """

    journal: Journal
    reports: Reports
    hub: Hub
    poll_s: float | None = None


async def follow_project(
    sources: StreamSources, scope: Scope, after: int, access: StreamAccess
) -> AsyncGenerator[MessageBatch, None]:
    """Yield the events of a project after position `after`, and then each new event, until the server stops."""
    feed = sources.hub.feed(scope.organisation, scope.project)
    reader = _EventReader(sources, scope, feed, feed.signal, after)
    ping_timer = _PingTimer()
    access.call_at_end(feed.signal.wake_all)
    while not sources.hub.closing:
        access.require()
        counters = feed.signal.counters
        if entries := await reader.next():
            ping_timer.reset()
            yield [each.text for each in entries]
        elif not await feed.signal.wait(counters, ping_timer.remaining_s(sources.poll_s)):
            reader.force_read()
            if ping_timer.is_due:
                ping_timer.reset()
                yield [PING]


def follow_job(
    sources: StreamSources,
    scope: Scope,
    view: JobView,
    cursor: StreamPosition,
    include: frozenset[str],
    access: StreamAccess,
) -> AsyncGenerator[MessageBatch, None]:
    """Yield events, logs, metrics and progress of a job, until it has ended and everything was yielded."""
    return _JobFollower(sources, scope, view, cursor, include, access).run()


def is_end(texts: MessageBatch) -> bool:
    """Return whether this batch is the last one of a job's stream, which says how the job ended."""
    return texts[-1].startswith(_END)


class _PingTimer:
    """Says when a stream that has had no messages for a while needs a ping."""

    def __init__(self) -> None:
        self._since = monotonic()

    @property
    def is_due(self) -> bool:
        return monotonic() - self._since >= PING_INTERVAL_S

    def reset(self) -> None:
        self._since = monotonic()

    def remaining_s(self, limit_s: float | None) -> float:
        remaining = max(0.0, self._since + PING_INTERVAL_S - monotonic())
        return remaining if limit_s is None else min(remaining, limit_s)


class _EventReader:
    """Reads events after a position: from the feed if it still has them, else from the journal."""

    def __init__(
        self,
        sources: StreamSources,
        scope: Scope,
        feed: EventFeed,
        signal: ChangeSignal,
        after: int,
        job_id: str | None = None,
    ) -> None:
        self._sources, self._scope, self._job_id = sources, scope, job_id
        self._feed, self._signal = feed, signal
        self._read_count: int | None = None
        self.after = after

    def force_read(self) -> None:
        """Make the next call read the journal even without a signal, because another process may have written."""
        if self._sources.poll_s is not None:
            self._read_count = None

    async def next(self) -> list[StreamEntry]:
        if self._read_count == self._signal.events:
            return []
        count = self._signal.events
        entries = self._from_memory() if self._has_in_memory() else await self._from_journal(count)
        if len(entries) < EVENTS_PER_READ:
            self._read_count = count
        return entries

    def _has_in_memory(self) -> bool:
        """Return whether the feed has the events after the position.

        The feed has only events that this process has committed. After a forced read, a feed without newer events
        proves nothing: another process may have committed some.
        """
        if not self._feed.covers(self.after):
            return False
        is_forced = self._read_count is None and self._sources.poll_s is not None
        return not is_forced or self.after < self._feed.last

    def _from_memory(self) -> list[StreamEntry]:
        entries = self._feed.after(self.after)
        self.after = max(self.after, self._feed.last)
        return [each for each in entries if self._job_id is None or each.job_id == self._job_id]

    async def _from_journal(self, count: int) -> list[StreamEntry]:
        journal, scope, after = self._sources.journal, self._scope, self.after

        async def read() -> list[StreamEntry]:
            events = await journal.events(scope, after=after, limit=EVENTS_PER_READ, job_id=self._job_id)
            return [stream_entry(each) for each in events]

        key = ("events", scope.organisation, scope.project, self._job_id, after, count, self._read_count)
        entries = await self._sources.hub.read_shared(key, read)
        self.after = entries[-1].position if entries else after
        return entries


class _JobFollower:
    """One client's stream of one job."""

    def __init__(
        self,
        sources: StreamSources,
        scope: Scope,
        view: JobView,
        cursor: StreamPosition,
        include: frozenset[str],
        access: StreamAccess,
    ) -> None:
        self._sources, self._scope, self._view, self._include = sources, scope, view, include
        self._signal = sources.hub.signal(view.id)
        self._view_position = cursor.after  # the view must include the event at this position
        self._access = access
        access.call_at_end(self._signal.wake_all)
        feed = sources.hub.feed(scope.organisation, scope.project)
        self._events = _EventReader(sources, scope, feed, self._signal, cursor.after, view.id)
        self._reports = ReportReader(sources.reports, sources.hub, view.id, include, cursor.node)
        self._reports.start(max(1, cursor.attempt), cursor.log, cursor.point)
        self._ping_timer = _PingTimer()
        self._polled_at = monotonic()
        self._wants_reports = bool(include & {"logs", "metrics", "progress"})
        self._reset_report_position()

    async def run(self) -> AsyncGenerator[MessageBatch, None]:
        while not self._sources.hub.closing:
            self._access.require()
            counters = self._signal.counters
            messages = await self._new_events() + await self._new_reports()
            if messages:
                self._ping_timer.reset()
                yield messages
            elif self._is_finished:
                yield [json.dumps({"kind": "end", "status": str(self._view.status)})]
                return
            elif ping := await self._wait(counters):
                yield ping

    @property
    def _is_finished(self) -> bool:
        return self._view.is_terminal and self._drained and self._events.after >= self._view.position

    @property
    def _has_unread_reports(self) -> bool:
        return self._wants_reports and self._read_count != self._signal.reports

    def _reset_report_position(self) -> None:
        self._drained = not self._wants_reports
        self._read_count = -1
        self._read_at = float("-inf")

    async def _new_events(self) -> MessageBatch:
        entries = await self._events.next()
        if any(each.kind in ATTEMPT_EVENTS for each in entries):
            self._view_position = entries[-1].position
        if self._view.position < self._view_position:
            await self._reload_view()
        return [each.text for each in entries] if "events" in self._include else []

    async def _reload_view(self) -> None:
        """Read the state of the job again. Keep the old one if the journal does not have the new one yet.

        An event can be read from the database before the process that committed it has updated its states of jobs. The
        notification of the commit comes after that update, and then the state is read once more.
        """
        journal, scope, job_id = self._sources.journal, self._scope, self._view.id
        key = ("view", job_id, self._view_position, self._signal.events)
        view = await self._sources.hub.read_shared(key, lambda: journal.view(scope, job_id))
        if view.position >= self._view_position:
            self._view = view
            self._reset_report_position()

    async def _new_reports(self) -> MessageBatch:
        if not self._has_unread_reports or monotonic() - self._read_at < REPORT_INTERVAL_S:
            return []
        count = self._signal.reports
        messages, has_all = await self._read_attempt(count)
        if has_all:
            self._read_at, self._read_count = monotonic(), count
            self._advance_attempt()
        return messages

    async def _read_attempt(self, count: int) -> tuple[MessageBatch, bool]:
        if self._reports.attempt > len(self._view.attempts):
            return [], True
        return await self._reports.next(count)

    def _advance_attempt(self) -> None:
        """Continue with the next attempt if this one is over and all its reports were yielded."""
        number, attempts = self._reports.attempt, self._view.attempts
        if number < len(attempts) and attempts[number - 1].is_over:
            self._reports.start(number + 1)
            self._reset_report_position()
        elif self._view.is_terminal:
            self._drained = True

    async def _wait(self, counters: tuple[int, int]) -> MessageBatch:
        has_changed = await self._signal.wait(counters, self._wait_s())
        self._poll(is_idle=not has_changed)
        if has_changed or not self._ping_timer.is_due:
            return []
        self._ping_timer.reset()
        return [PING]

    def _poll(self, *, is_idle: bool) -> None:
        """Read the store again, because another process may have written to it; also while this one is busy."""
        poll_s = self._sources.poll_s
        if poll_s is not None and (is_idle or monotonic() - self._polled_at >= poll_s):
            self._polled_at = monotonic()
            self._events.force_read()
            self._read_count = -1

    def _wait_s(self) -> float:
        if self._has_unread_reports:
            return max(0.001, self._read_at + REPORT_INTERVAL_S - monotonic())
        return self._ping_timer.remaining_s(self._sources.poll_s)
