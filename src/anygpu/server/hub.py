"""In-process fan-out: what was just committed, encoded once, to everybody who watches.

Feeds and signals exist only while somebody follows: the hub's memory is bounded by its followers, and a slow
follower holds nothing. Whoever is behind the ring reads the journal; the ring is only the short way.
"""

import asyncio
import json
import threading
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import count, islice
from time import monotonic
from typing import Any, NamedTuple, TypeVar
from weakref import WeakValueDictionary

from anygpu.errors import RateLimited
from anygpu.events.codec import encode
from anygpu.events.fold import Recorded

T = TypeVar("T")
RING = 4096
SHARED_READS = 128
SPACING_S = 0.0001  # what waking one watcher and sending to it takes
MOST_SPACING_S = 0.02
_FIRST_COUNTS = count(0, 1 << 40)


class Entry(NamedTuple):
    """An event as followers send it."""

    position: int
    job_id: str
    kind: str
    text: str


class Signal:
    """Wakes everybody who waits; counters tell a follower whether it missed something meanwhile.

    A lone watcher is woken at once. The more there are the longer a wake-up takes, so what happens meanwhile is kept
    for the next one: a burst of events costs two rounds through two hundred watchers, not one for each event.
    """

    def __init__(self) -> None:
        # Shared reads are kept under these counts: a new signal must not repeat those of a forgotten one.
        self.events = self.evidence = next(_FIRST_COUNTS)
        self._told = self.seen
        self._waiters: dict[asyncio.Future[bool], None] = {}
        self._loop = asyncio.get_running_loop()
        self._next_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def seen(self) -> tuple[int, int]:
        return self.events, self.evidence

    def fire(self, *, events: int = 0, evidence: int = 0) -> None:
        self.events += events
        self.evidence += evidence
        wait_s = self._next_at - self._loop.time()
        if wait_s <= 0:
            self.release()
        elif self._timer is None:
            self._timer = self._loop.call_later(wait_s, self.release)

    def release(self) -> None:
        """Wake everybody now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiters, self._waiters = self._waiters, {}
        self._told = self.seen
        self._next_at = self._loop.time() + min(MOST_SPACING_S, SPACING_S * len(waiters))
        for waiter in waiters:
            _answer(waiter, True)

    async def wait(self, seen: tuple[int, int], timeout_s: float) -> bool:
        """Whether anything happened since `seen`; gives up after `timeout_s`."""
        if self._told[0] > seen[0] or self._told[1] > seen[1]:
            return True
        waiter: asyncio.Future[bool] = self._loop.create_future()
        self._waiters[waiter] = None
        timer = self._loop.call_later(timeout_s, _answer, waiter, False)
        try:
            return await waiter
        finally:
            timer.cancel()
            self._waiters.pop(waiter, None)


class Feed:
    """The newest events of one project: a run of positions without a gap."""

    def __init__(self) -> None:
        self.signal = Signal()
        self._ring: deque[Entry] = deque(maxlen=RING)

    @property
    def last(self) -> int:
        return self._ring[-1].position if self._ring else 0

    def add(self, entry: Entry) -> bool:
        """Whether it was new. A gap (another process wrote between) starts the run anew."""
        if self._ring and entry.position <= self.last:
            return False
        if self._ring and entry.position != self.last + 1:
            self._ring.clear()
        self._ring.append(entry)
        return True

    def covers(self, after: int) -> bool:
        return bool(self._ring) and self._ring[0].position <= after + 1

    def after(self, position: int) -> list[Entry]:
        """Entries behind `position`; only when it is covered."""
        if position >= self.last:
            return []
        return list(islice(self._ring, position + 1 - self._ring[0].position, None))


class Hub:
    """Who watches what. Told by the journal after each commit, and by the agent listener after each report."""

    def __init__(self, *, most_followers: int = 1000, reads_age_s: float = float("inf")) -> None:
        """`reads_age_s`: how long a shared read is true, where other processes change things unseen."""
        self.closing = False
        self.followers = 0
        self._most = most_followers
        self._reads_age_s = reads_age_s
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._feeds: WeakValueDictionary[tuple[str, str], Feed] = WeakValueDictionary()
        self._signals: WeakValueDictionary[str, Signal] = WeakValueDictionary()
        self._reads: OrderedDict[tuple[Any, ...], tuple[float, asyncio.Future[Any]]] = OrderedDict()

    def committed(self, recorded: Sequence[Recorded]) -> None:
        """The journal's after-commit callback; from any thread."""
        self._in_loop(self._publish, recorded)

    def touched(self, job_id: str) -> None:
        """Logs, metrics or progress of the job changed."""
        self._in_loop(self._touch, job_id)

    def feed(self, organisation: str, project: str) -> Feed:
        return self._feeds.setdefault((organisation, project), Feed())

    def feeds(self) -> list[tuple[tuple[str, str], Feed]]:
        return list(self._feeds.items())

    def signal(self, job_id: str) -> Signal:
        return self._signals.setdefault(job_id, Signal())

    def require_room(self) -> None:
        """Before a stream's answer begins: afterwards it is too late to refuse."""
        if self.followers >= self._most:
            raise RateLimited("too many open streams", hint="Close some, or raise `limits.followers`.")

    @contextmanager
    def following(self) -> Iterator[None]:
        self.followers += 1
        try:
            yield
        finally:
            self.followers -= 1

    async def shared(self, key: tuple[Any, ...], read: Callable[[], Awaitable[T]]) -> T:
        """One read for all followers that ask for the same thing in the same state."""
        at, found = self._reads.get(key, (0.0, None))
        if found is None or _failed(found) or monotonic() - at > self._reads_age_s:
            found = asyncio.ensure_future(read())
            self._reads[key] = (monotonic(), found)
            self._reads.move_to_end(key)
            if len(self._reads) > SHARED_READS:
                self._reads.popitem(last=False)
        result: T = await asyncio.shield(found)
        return result

    def close(self) -> None:
        """Every follower ends its stream; clients come back with their cursor."""
        self.closing = True
        for _, feed in self.feeds():
            feed.signal.release()
        for signal in list(self._signals.values()):
            signal.release()

    def _in_loop(self, call: Callable[[Any], None], argument: Any) -> None:
        if threading.get_ident() == self._thread:
            call(argument)
        else:
            self._loop.call_soon_threadsafe(call, argument)

    def _publish(self, recorded: Sequence[Recorded]) -> None:
        for each in recorded:
            feed = self._feeds.get((each.organisation, each.project))
            if feed is not None and feed.add(entry(each)):
                feed.signal.fire(events=1)
            if signal := self._signals.get(each.job_id):
                signal.fire(events=1)

    def _touch(self, job_id: str) -> None:
        if signal := self._signals.get(job_id):
            signal.fire(evidence=1)


def _answer(waiter: asyncio.Future[bool], answer: bool) -> None:
    if not waiter.done():
        waiter.set_result(answer)


def _failed(read: asyncio.Future[Any]) -> bool:
    return read.done() and (read.cancelled() or read.exception() is not None)


def entry(recorded: Recorded) -> Entry:
    text = f'{{"kind":"event","after":{recorded.position},"event":{event_json(recorded)}}}'
    return Entry(recorded.position, recorded.job_id, type(recorded.event).__name__, text)


def event_json(recorded: Recorded) -> str:
    """An event as the API shows it; its data is the journal's own JSON."""
    event = recorded.event
    return (
        f'{{"position":{recorded.position},"job_id":{json.dumps(recorded.job_id)},'
        f'"at":"{iso(recorded.at_ms)}","type":"{type(event).__name__}",'
        f'"version":{event.VERSION},"data":{encode(event).decode()}}}'
    )


def iso(at_ms: int) -> str:
    """Times for people: ISO-8601, UTC, milliseconds."""
    whole = datetime.fromtimestamp(at_ms / 1000, UTC)
    return whole.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at_ms % 1000:03d}Z"
