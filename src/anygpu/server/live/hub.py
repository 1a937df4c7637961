"""Distribute committed events within this process to the followers of streams. Each event is encoded once.

A follower is one open stream of a client. Feeds (recent events of a project) and signals (wake-ups of a job) exist
only while they have followers, so the number of followers limits the memory. A slow follower does not keep old events
in memory: it reads them from the journal.
"""

import asyncio
import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count, islice
from time import monotonic
from typing import Any, NamedTuple, TypeVar
from weakref import WeakValueDictionary

from anygpu.errors import RateLimited
from anygpu.events.fold import Recorded
from anygpu.server.encoding import event_json

T = TypeVar("T")
RING_SIZE = 4096
MAX_SHARED_READS = 128
SPACING_S = 0.0001  # time to wake one follower and send to it
MAX_SPACING_S = 0.02
_FIRST_COUNTS = count(0, 1 << 40)


class StreamEntry(NamedTuple):
    """An event, already encoded as the text that streams send."""

    position: int
    job_id: str
    kind: str
    text: str


class ChangeSignal:
    """Wakes all clients (followers) that wait for a change. Its counters tell a follower whether it missed a change.

    A single follower is woken at once. Waking many takes longer, so changes in the meantime are collected for the next
    wake-up: with two hundred followers, a burst of events costs two wake-ups instead of one for each event.
    """

    def __init__(self) -> None:
        # Shared reads are cached by these counts, so a new signal must not repeat the counts of a deleted one.
        self.events = self.reports = next(_FIRST_COUNTS)
        self._announced = self.counters
        self._waiters: dict[asyncio.Future[bool], None] = {}
        self._loop = asyncio.get_running_loop()
        self._next_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def counters(self) -> tuple[int, int]:
        return self.events, self.reports

    def fire(self, *, events: int = 0, reports: int = 0) -> None:
        self.events += events
        self.reports += reports
        wait_s = self._next_at - self._loop.time()
        if wait_s <= 0:
            self.wake_all()
        elif self._timer is None:
            self._timer = self._loop.call_later(wait_s, self.wake_all)

    def wake_all(self) -> None:
        """Wake all followers now, without waiting for the next planned wake-up."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiters, self._waiters = self._waiters, {}
        self._announced = self.counters
        self._next_at = self._loop.time() + min(MAX_SPACING_S, SPACING_S * len(waiters))
        for waiter in waiters:
            _resolve_waiter(waiter, True)

    async def wait(self, since: tuple[int, int], timeout_s: float) -> bool:
        """Wait until the counters are greater than `since`: something has changed. Return False after `timeout_s`."""
        if self._announced[0] > since[0] or self._announced[1] > since[1]:
            return True
        waiter: asyncio.Future[bool] = self._loop.create_future()
        self._waiters[waiter] = None
        timer = self._loop.call_later(timeout_s, _resolve_waiter, waiter, False)
        try:
            return await waiter
        finally:
            timer.cancel()
            self._waiters.pop(waiter, None)


class EventFeed:
    """The newest events of one project, at consecutive positions."""

    def __init__(self) -> None:
        self.signal = ChangeSignal()
        self._ring: deque[StreamEntry] = deque(maxlen=RING_SIZE)

    @property
    def last(self) -> int:
        return self._ring[-1].position if self._ring else 0

    def add(self, entry: StreamEntry) -> bool:
        """Add an event; return False if it is known already.

        If another process wrote the events before this one, the feed drops its older events, so that it has no gaps.
        """
        if self._ring and entry.position <= self.last:
            return False
        if self._ring and entry.position != self.last + 1:
            self._ring.clear()
        self._ring.append(entry)
        return True

    def covers(self, after: int) -> bool:
        return bool(self._ring) and self._ring[0].position <= after + 1

    def after(self, position: int) -> list[StreamEntry]:
        """Return the entries after `position`. Call it only if `covers(position)` is true."""
        if position >= self.last:
            return []
        return list(islice(self._ring, position + 1 - self._ring[0].position, None))


class Hub:
    """Connects open streams to the changes that they wait for.

    The journal notifies it of commits, the agent listener of reports.
    """

    def __init__(self, *, max_followers: int = 1000, max_read_age_s: float = float("inf")) -> None:
        """Create the hub.

        `max_read_age_s`: how long a shared read is valid if other processes write to the database too.
        """
        self.closing = False
        self.followers = 0
        self._max_followers = max_followers
        self._max_read_age_s = max_read_age_s
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._feeds: WeakValueDictionary[tuple[str, str], EventFeed] = WeakValueDictionary()
        self._signals: WeakValueDictionary[str, ChangeSignal] = WeakValueDictionary()
        self._listeners: dict[tuple[str, str], Callable[[str], None]] = {}
        self._closed = asyncio.Event()
        self._watched: Counter[str] = Counter()  # pages by the job that they show
        self._reads: OrderedDict[tuple[Any, ...], tuple[float, asyncio.Future[Any]]] = OrderedDict()

    def on_commit(self, recorded: Sequence[Recorded]) -> None:
        """Publish committed events. The journal calls this after each commit, from any thread."""
        self._in_loop(self._publish_events, recorded)

    def on_report(self, job_id: str) -> None:
        """Notify the followers of a job that its logs, metrics or progress changed."""
        self._in_loop(self._notify_job, job_id)

    def feed(self, organisation: str, project: str) -> EventFeed:
        return self._feeds.setdefault((organisation, project), EventFeed())

    def feeds(self) -> list[tuple[tuple[str, str], EventFeed]]:
        return list(self._feeds.items())

    def signal(self, job_id: str) -> ChangeSignal:
        return self._signals.setdefault(job_id, ChangeSignal())

    def add_listener(self, project: tuple[str, str], notify: Callable[[str], None]) -> None:
        """Call `notify` with the id of each job of a project that has new events, and of any job that reports."""
        self._listeners[project] = notify

    def remove_listener(self, project: tuple[str, str]) -> None:
        del self._listeners[project]

    def require_capacity(self) -> None:
        """Raise RateLimited if there are too many streams. Call it before the response begins."""
        if self.followers >= self._max_followers:
            raise RateLimited(
                "The server has too many open event streams",
                hint="Stop some commands or web pages that follow jobs, or raise the setting `limits.followers`.",
            )

    @contextmanager
    def count_follower(self) -> Iterator[None]:
        self.followers += 1
        try:
            yield
        finally:
            self.followers -= 1

    @contextmanager
    def watch(self, job_id: str) -> Iterator[None]:
        """Count a page that shows the job, so that its agent reports at a short interval."""
        self._watched[job_id] += 1
        try:
            yield
        finally:
            self._watched[job_id] -= 1
            if not self._watched[job_id]:
                del self._watched[job_id]

    def is_watched(self, job_id: str) -> bool:
        """Return whether a page shows the job, as far as this process knows."""
        return job_id in self._watched

    async def read_shared(self, key: tuple[Any, ...], read: Callable[[], Awaitable[T]]) -> T:
        """Return the result of `read`. Followers that use the same key share one read."""
        read_at, pending = self._reads.get(key, (0.0, None))
        if pending is None or _has_failed(pending) or monotonic() - read_at > self._max_read_age_s:
            pending = asyncio.ensure_future(read())
            self._reads[key] = (monotonic(), pending)
            self._reads.move_to_end(key)
            if len(self._reads) > MAX_SHARED_READS:
                self._reads.popitem(last=False)
        result: T = await asyncio.shield(pending)
        return result

    def close(self) -> None:
        """End every stream. Clients reconnect with their cursor."""
        self.closing = True
        self._closed.set()
        for _, feed in self.feeds():
            feed.signal.wake_all()
        for signal in list(self._signals.values()):
            signal.wake_all()

    async def wait_closed(self) -> None:
        """Wait until the server stops."""
        await self._closed.wait()

    def _in_loop(self, call: Callable[[Any], None], argument: Any) -> None:
        if threading.get_ident() == self._thread:
            call(argument)
        else:
            self._loop.call_soon_threadsafe(call, argument)

    def _publish_events(self, recorded: Sequence[Recorded]) -> None:
        for each in recorded:
            feed = self._feeds.get((each.organisation, each.project))
            if feed is not None and feed.add(stream_entry(each)):
                feed.signal.fire(events=1)
            if notify := self._listeners.get((each.organisation, each.project)):
                notify(each.job_id)
            if signal := self._signals.get(each.job_id):
                signal.fire(events=1)

    def _notify_job(self, job_id: str) -> None:
        if signal := self._signals.get(job_id):
            signal.fire(reports=1)
        for notify in self._listeners.values():
            notify(job_id)


def _resolve_waiter(waiter: asyncio.Future[bool], answer: bool) -> None:
    if not waiter.done():
        waiter.set_result(answer)


def _has_failed(read: asyncio.Future[Any]) -> bool:
    return read.done() and (read.cancelled() or read.exception() is not None)


def stream_entry(recorded: Recorded) -> StreamEntry:
    text = f'{{"kind":"event","after":{recorded.position},"event":{event_json(recorded)}}}'
    return StreamEntry(recorded.position, recorded.job_id, type(recorded.event).__name__, text)
