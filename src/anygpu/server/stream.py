"""The stream: replay from a cursor, then follow. NDJSON and WebSocket both send what these generators yield.

Nothing twice, nothing missed: a follower notes the signal's counters before it reads, so what is committed
during the read makes it read again.
"""

import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from time import monotonic

from anygpu.events.view import JobView
from anygpu.server.evidence_reader import EvidenceReader
from anygpu.server.hub import Entry, Feed, Hub, Signal, entry
from anygpu.store.evidence import Evidence
from anygpu.store.journal import Journal
from anygpu.store.scope import Scope

EVENTS_READ = 500
EVIDENCE_EVERY_S = 0.05  # a chart needs no more than 20 updates a second
PING_EVERY_S = 15.0
PING = '{"kind":"ping"}'
EVERYTHING = frozenset({"events", "logs", "metrics", "progress"})
CHANGES_ATTEMPTS = frozenset(
    {"AttemptLaunching", "AttemptEnded", "AttemptLost", "JobCompleted", "JobFailed", "JobCancelled"}
)

Texts = list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """Where a client stands: the newest event, and how much of which attempt's evidence it has."""

    after: int = 0
    attempt: int = 0
    log: int = 0
    point: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """What followers read. `poll_s`: how often they look without a signal, where other processes write too."""

    journal: Journal
    evidence: Evidence
    hub: Hub
    poll_s: float | None = None


async def follow_project(sources: Sources, scope: Scope, after: int) -> AsyncGenerator[Texts, None]:
    """Every event of the project behind `after`, for ever."""
    feed = sources.hub.feed(scope.organisation, scope.project)
    reader = _EventReader(sources, scope, feed, feed.signal, after)
    silence = _Silence()
    with sources.hub.following():
        while not sources.hub.closing:
            seen = feed.signal.seen
            if entries := await reader.next():
                silence.broken()
                yield [each.text for each in entries]
            elif not await feed.signal.wait(seen, silence.left_s(sources.poll_s)):
                reader.look_again()
                if silence.over:
                    silence.broken()
                    yield [PING]


def follow_job(
    sources: Sources, scope: Scope, view: JobView, cursor: Cursor, include: frozenset[str] = EVERYTHING
) -> AsyncGenerator[Texts, None]:
    """Events, logs, metrics and progress of a job, until it has ended and all that is stored was delivered."""
    return _JobFollower(sources, scope, view, cursor, include).run()


class _Silence:
    """Knows when it is time for a ping."""

    def __init__(self) -> None:
        self._since = monotonic()

    @property
    def over(self) -> bool:
        return monotonic() - self._since >= PING_EVERY_S

    def broken(self) -> None:
        self._since = monotonic()

    def left_s(self, most: float | None) -> float:
        left = max(0.0, self._since + PING_EVERY_S - monotonic())
        return left if most is None else min(left, most)


class _EventReader:
    """Events behind a position: from memory when the feed still has them, else from the journal."""

    def __init__(
        self,
        sources: Sources,
        scope: Scope,
        feed: Feed,
        signal: Signal,
        after: int,
        job_id: str | None = None,
    ) -> None:
        self._sources, self._scope, self._job_id = sources, scope, job_id
        self._feed, self._signal = feed, signal
        self._looked_at: int | None = None
        self.after = after

    def look_again(self) -> None:
        """Read the journal next time, signal or not: another process may have written."""
        if self._sources.poll_s is not None:
            self._looked_at = None

    async def next(self) -> list[Entry]:
        if self._looked_at == self._signal.events:
            return []
        count = self._signal.events
        entries = self._from_memory() if self._feed.covers(self.after) else await self._from_journal(count)
        if len(entries) < EVENTS_READ:
            self._looked_at = count
        return entries

    def _from_memory(self) -> list[Entry]:
        entries = self._feed.after(self.after)
        self.after = max(self.after, self._feed.last)
        return [each for each in entries if self._job_id is None or each.job_id == self._job_id]

    async def _from_journal(self, count: int) -> list[Entry]:
        journal, scope, after = self._sources.journal, self._scope, self.after

        async def read() -> list[Entry]:
            found = await journal.events(scope, after=after, limit=EVENTS_READ, job_id=self._job_id)
            return [entry(each) for each in found]

        key = ("events", scope.organisation, scope.project, self._job_id, after, count, self._looked_at)
        entries = await self._sources.hub.shared(key, read)
        self.after = entries[-1].position if entries else after
        return entries


class _JobFollower:
    """One client's way through one job."""

    def __init__(
        self, sources: Sources, scope: Scope, view: JobView, cursor: Cursor, include: frozenset[str]
    ) -> None:
        self._sources, self._scope, self._view, self._include = sources, scope, view, include
        self._signal = sources.hub.signal(view.id)
        feed = sources.hub.feed(scope.organisation, scope.project)
        self._events = _EventReader(sources, scope, feed, self._signal, cursor.after, view.id)
        self._evidence = EvidenceReader(sources.evidence, sources.hub, view.id, include)
        self._evidence.start(max(1, cursor.attempt), cursor.log, cursor.point)
        self._silence = _Silence()
        self._wants_evidence = bool(include & {"logs", "metrics", "progress"})
        self._look_anew()

    async def run(self) -> AsyncGenerator[Texts, None]:
        with self._sources.hub.following():
            while not self._sources.hub.closing:
                seen = self._signal.seen
                texts = await self._new_events() + await self._new_evidence()
                if texts:
                    self._silence.broken()
                    yield texts
                elif self._ended:
                    yield [json.dumps({"kind": "end", "status": str(self._view.status)})]
                    return
                elif ping := await self._wait(seen):
                    yield ping

    @property
    def _ended(self) -> bool:
        return self._view.terminal and self._drained and self._events.after >= self._view.position

    @property
    def _stale(self) -> bool:
        return self._wants_evidence and self._looked_at != self._signal.evidence

    def _look_anew(self) -> None:
        self._drained = not self._wants_evidence
        self._looked_at = -1
        self._read_at = float("-inf")

    async def _new_events(self) -> Texts:
        entries = await self._events.next()
        if any(each.kind in CHANGES_ATTEMPTS for each in entries):
            await self._look_at_job(entries[-1].position)
        return [each.text for each in entries] if "events" in self._include else []

    async def _look_at_job(self, position: int) -> None:
        journal, scope, job_id = self._sources.journal, self._scope, self._view.id
        self._view = await self._sources.hub.shared(
            ("view", job_id, position), lambda: journal.view(scope, job_id)
        )
        self._look_anew()

    async def _new_evidence(self) -> Texts:
        if not self._stale or monotonic() - self._read_at < EVIDENCE_EVERY_S:
            return []
        count = self._signal.evidence
        texts, has_all = await self._read_attempt(count)
        if has_all:
            self._read_at, self._looked_at = monotonic(), count
            self._move_on()
        return texts

    async def _read_attempt(self, count: int) -> tuple[Texts, bool]:
        if self._evidence.attempt > len(self._view.attempts):
            return [], True
        return await self._evidence.next(count)

    def _move_on(self) -> None:
        """The attempt has nothing more for now. When it is over, the next one is followed."""
        number, attempts = self._evidence.attempt, self._view.attempts
        if number < len(attempts) and attempts[number - 1].over:
            self._evidence.start(number + 1)
            self._look_anew()
        elif self._view.terminal:
            self._drained = True

    async def _wait(self, seen: tuple[int, int]) -> Texts:
        if await self._signal.wait(seen, self._patience_s()):
            return []
        if self._sources.poll_s is not None:
            self._events.look_again()
            self._looked_at = -1
        if not self._silence.over:
            return []
        self._silence.broken()
        return [PING]

    def _patience_s(self) -> float:
        if self._stale:
            return max(0.001, self._read_at + EVIDENCE_EVERY_S - monotonic())
        return self._silence.left_s(self._sources.poll_s)
