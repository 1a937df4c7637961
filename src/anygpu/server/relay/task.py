"""The task of the control loop that relays messages: it knows which mailboxes are in use, and removes the others.

Only the server that controls the jobs runs it. Its work depends on the attempts that live, not on those that ended.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from anygpu.backends.contract import Backend
from anygpu.backends.relay.contract import RelayTransport, find_relay
from anygpu.control.clock import Clock
from anygpu.control.ids import read_attempt_name
from anygpu.control.term import PeriodicTask
from anygpu.control.timers import NEVER
from anygpu.errors import NotFound
from anygpu.events.view import JobView
from anygpu.server.relay.pump import HandleRequest, RelayPump, Report
from anygpu.store.journal import Journal
from anygpu.store.scope import SYSTEM

OnRemoved = Callable[[str, bool], None]  # called with the name of a mailbox, and whether it was removed
REMOVE_AFTER_S = 30.0  # from the end of an attempt: what its agent still sends is accepted until then
REMOVE_TRIES = 3
REMOVE_LIMIT_S = 600.0  # for one mailbox; the next try continues
MAX_REMOVALS = 4  # at the same time
FIRST_LEFTOVERS_S, MAX_LEFTOVERS_S = 30.0, 600.0  # pauses between two searches; backends open one by one
CHECK_S = 1.0  # how often the task checks which relays have mailboxes
ROUND_LIMIT_S = 60.0
BUSY_S = 2.0  # after a message, the next one of the same agent is likely to come within this time
MAILBOXES_PER_S = 1000  # the more mailboxes there are, the slower are busy rounds


@dataclass(slots=True, kw_only=True)
class WatchedMailbox:
    """The mailbox of an attempt. `remove_at` is set when the attempt is over (monotonic time)."""

    job_id: str
    backend: str
    nodes: int
    remove_at: float | None = None
    tries: int = 0  # how often it could not be removed

    def is_due(self, now: float) -> bool:
        return self.remove_at is not None and self.remove_at <= now


class RelayWorker:
    """Answers and removes the mailboxes of one relay, in rounds. A relay that does not answer delays no other.

    `get_work` returns the mailboxes with their numbers of nodes, and the names of those that should be removed.
    """

    def __init__(
        self,
        transport: RelayTransport,
        handle: HandleRequest,
        clock: Clock,
        report: Report,
        get_work: Callable[[RelayTransport], tuple[Mapping[str, int], Sequence[str]]],
        on_removed: OnRemoved,
    ) -> None:
        self.transport = transport
        self._pump = RelayPump(transport, handle, report)
        self._clock = clock
        self._report = report
        self._get_work = get_work
        self._on_removed = on_removed
        self._task: asyncio.Task[None] | None = None
        self._removals: dict[str, asyncio.Task[None]] = {}  # by mailbox
        self._is_failing = False
        self._busy_rounds = 0

    def start(self) -> None:
        """Begin with the rounds, unless they run. They end when there is no mailbox."""
        if self._task is None or self._task.done():
            self._be_busy()  # an agent that starts sends its claim soon
            self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        tasks = [*self._removals.values(), *([self._task] if self._task is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._pump.close()

    async def _run(self) -> None:
        while True:
            mailboxes, ended = self._get_work(self.transport)
            if not mailboxes:
                return
            self._start_removals(ended)
            await self._run_round(
                {name: nodes for name, nodes in mailboxes.items() if name not in self._removals}
            )
            await self._clock.sleep(self._next_pause_s(len(mailboxes)))

    async def _run_round(self, mailboxes: Mapping[str, int]) -> None:
        try:
            async with asyncio.timeout(ROUND_LIMIT_S):
                if mailboxes and await self._pump.poll(mailboxes):
                    self._be_busy()
        except Exception as error:  # noqa: BLE001  the next round tries again
            if not self._is_failing:
                self._report("the mailboxes of a relay could not be read; they are read again", error)
            self._is_failing = True
        else:
            self._is_failing = False

    def _be_busy(self) -> None:
        self._busy_rounds = round(BUSY_S / self.transport.busy_poll_s)

    def _next_pause_s(self, mailboxes: int) -> float:
        if not self._busy_rounds:
            return self.transport.poll_s
        self._busy_rounds -= 1
        return min(self.transport.poll_s, max(self.transport.busy_poll_s, mailboxes / MAILBOXES_PER_S))

    def _start_removals(self, ended: Sequence[str]) -> None:
        """Remove mailboxes beside the rounds: a job may have put so much into its own that this takes minutes."""
        for name in ended:
            if name not in self._removals and len(self._removals) < MAX_REMOVALS:
                self._removals[name] = asyncio.create_task(self._remove_ended(name))

    async def _remove_ended(self, name: str) -> None:
        try:
            self._on_removed(name, await self.remove(name))
        finally:
            del self._removals[name]

    async def remove(self, name: str) -> bool:
        self._pump.forget(name)
        try:
            async with asyncio.timeout(REMOVE_LIMIT_S):
                await self.transport.remove(name)
        except Exception as error:  # noqa: BLE001
            self._report(f"the mailbox of {name} could not be removed; it is tried again", error)
            return False
        return True


class RelayTask(PeriodicTask):
    """Answers the requests in the mailboxes of live attempts, and removes the mailboxes of ended ones.

    `shared` are the relays of the server's settings. Mailboxes may be left there by a backend that was removed.
    """

    name = "relaying messages"

    def __init__(
        self,
        backends: Mapping[str, Backend],
        journal: Journal,
        handle: HandleRequest,
        clock: Clock,
        report: Report,
        shared: Sequence[RelayTransport] = (),
    ) -> None:
        self._backends = backends
        self._shared = shared
        self._journal = journal
        self._handle = handle
        self._clock = clock
        self._report = report
        self._watched: dict[str, WatchedMailbox] = {}
        self._workers: dict[int, RelayWorker] = {}  # by the identity of the transport
        self._leftovers_at = clock.monotonic()
        self._leftovers_pause_s = FIRST_LEFTOVERS_S
        self._search: asyncio.Task[None] | None = None
        self._runs = False

    def update(self, view: JobView) -> None:
        for attempt in view.attempts:
            watched = self._watched.get(attempt.name)
            if attempt.is_released or view.is_terminal:
                self._end(watched)
            elif watched is None and find_relay(self._backends.get(attempt.offer.backend)) is not None:
                self._watched[attempt.name] = WatchedMailbox(
                    job_id=view.id, backend=attempt.offer.backend, nodes=attempt.node_count
                )

    def forget(self, job_id: str) -> None:
        for watched in self._watched.values():
            if watched.job_id == job_id:
                self._end(watched)

    def _end(self, watched: WatchedMailbox | None) -> None:
        if watched is not None and watched.remove_at is None:
            watched.remove_at = self._clock.monotonic() + REMOVE_AFTER_S

    def is_due(self) -> bool:
        return not self._runs and (bool(self._watched) or self._clock.monotonic() >= self._leftovers_at)

    def next_at(self) -> float:
        return NEVER if self._runs else self._leftovers_at

    async def run(self) -> None:
        """Relay messages until no mailbox is left. The supervisor cancels it when it loses the lease."""
        self._runs = True
        try:
            self._start_search()
            while self._watched or self._is_searching:
                self._start_workers()
                await self._clock.sleep(CHECK_S)
                self._start_search()
        finally:
            self._runs = False
            await self._close()

    @property
    def _is_searching(self) -> bool:
        return self._search is not None and not self._search.done()

    async def _close(self) -> None:
        workers, self._workers = self._workers, {}
        if self._search is not None:
            self._search.cancel()
            await asyncio.gather(self._search, return_exceptions=True)
        await asyncio.gather(*(worker.close() for worker in workers.values()))

    def _start_workers(self) -> None:
        """Start the worker of each relay that has mailboxes."""
        for name, watched in [*self._watched.items()]:
            transport = self._transport_of(watched)
            if transport is not None:
                self._worker(transport).start()
            elif watched.is_due(self._clock.monotonic()):
                del self._watched[name]  # its backend was removed: the search for leftovers finds it

    def _work_of(self, transport: RelayTransport) -> tuple[Mapping[str, int], Sequence[str]]:
        now = self._clock.monotonic()
        mine = {
            name: watched
            for name, watched in self._watched.items()
            if self._transport_of(watched) is transport
        }
        ended = [name for name, watched in mine.items() if watched.is_due(now)]
        return {name: watched.nodes for name, watched in mine.items()}, ended

    def _transport_of(self, watched: WatchedMailbox) -> RelayTransport | None:
        """Return the relay of a mailbox; None while its backend is being opened, or if it was removed."""
        return find_relay(self._backends.get(watched.backend))

    def _worker(self, transport: RelayTransport) -> RelayWorker:
        if id(transport) not in self._workers:
            self._workers[id(transport)] = RelayWorker(
                transport, self._handle, self._clock, self._report, self._work_of, self._on_removed
            )
        return self._workers[id(transport)]

    def _on_removed(self, name: str, removed: bool) -> None:
        """Forget a removed mailbox. What cannot be removed is left to the search for leftovers after some tries."""
        watched = self._watched.get(name)
        if watched is None:
            return
        watched.tries += 1
        if removed or watched.tries >= REMOVE_TRIES:
            del self._watched[name]
        else:
            watched.remove_at = self._clock.monotonic() + REMOVE_AFTER_S

    def _start_search(self) -> None:
        """Begin to search for mailboxes that an earlier server left, if the last search was long enough ago."""
        if self._is_searching or self._clock.monotonic() < self._leftovers_at:
            return
        self._leftovers_at = self._clock.monotonic() + self._leftovers_pause_s
        self._leftovers_pause_s = min(2 * self._leftovers_pause_s, MAX_LEFTOVERS_S)
        self._search = asyncio.create_task(self._remove_leftovers())

    async def _remove_leftovers(self) -> None:
        relays = (*self._shared, *(find_relay(self._backends[name]) for name in self._backends))
        workers = dict.fromkeys(self._worker(relay) for relay in relays if relay is not None)
        await asyncio.gather(*(self._remove_leftovers_of(worker) for worker in workers))

    async def _remove_leftovers_of(self, worker: RelayWorker) -> None:
        try:
            async with asyncio.timeout(ROUND_LIMIT_S):
                names = await worker.transport.mailboxes()
            for name in names:
                if name not in self._watched and await self._is_over(name):
                    await worker.remove(name)
        except Exception as error:  # noqa: BLE001
            self._report("old mailboxes could not be listed; they are listed again later", error)

    async def _is_over(self, name: str) -> bool:
        """Return whether a mailbox belongs to an ended attempt of this server's jobs."""
        attempt = read_attempt_name(name)
        if attempt is None:
            return False
        try:
            view = await self._journal.view(SYSTEM, attempt[0])
        except NotFound:
            return False  # it may belong to another server that uses the same directory or bucket
        known = attempt[1] <= len(view.attempts)
        return known and (view.is_terminal or view.attempts[attempt[1] - 1].is_released)
