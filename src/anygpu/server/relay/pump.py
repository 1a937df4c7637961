"""Answer the requests in mailboxes. One listing finds the new requests of all mailboxes of a relay."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing
from typing import NamedTuple

from anygpu.agent.link.mailbox import ANSWER, REQUEST, BadMessage
from anygpu.agent.link.relay import EXTRA_WAIT_S, SLOWEST_BYTES_PER_S
from anygpu.backends.relay.contract import MailboxFile, RelayTransport
from anygpu.server.relay.messages import (
    MessageBody,
    RelayAnswer,
    RelayRequest,
    encode_answer,
    parse_request,
    read_head,
)

HandleRequest = Callable[[RelayRequest, MessageBody], AbstractAsyncContextManager[RelayAnswer]]
Report = Callable[[str, Exception], None]
CONCURRENT_REQUESTS = 64
RECHECKS = (
    3  # a listing may be newer than what is read, so a message without news is read again in the next rounds
)
WAITING = ("/agent/v1/orders", "/agent/v1/ready")  # these requests wait, so they do not count as concurrent
# How long a small request is handled again whose answer cannot be written. By then the agent has given it up. A request
# of a dead agent must not count as a sign of life for longer. The agent waits longer for the answer to a large one.
TRY_FOR_S = 60.0


class ChannelKey(NamedTuple):
    mailbox: str
    channel: str


class ChannelState:
    """What the server knows about a channel. It may forget this at any time: then a request is answered again."""

    __slots__ = (
        "abandoned",
        "answered",
        "handled",
        "handled_since",
        "has_failed",
        "in_work",
        "is_answering",
        "is_waiting",
        "rechecks",
        "task",
        "tried",
        "tried_since",
        "version",
    )

    def __init__(self) -> None:
        self.version = ""  # of the request that was read last
        self.in_work = ""  # the version of the request that `task` handles
        self.is_waiting = False  # the request in work is a long poll
        self.handled_since: float | None = None  # when the handling of the request in work began
        self.is_answering = False  # the answer to the request in work is being written
        self.abandoned: ChannelState | None = None  # of the request before, if the agent gave it up
        self.handled = ""  # the id of the request whose answer was tried to write
        self.answered: str | None = None  # the id of the request that was answered last; None: not known
        self.rechecks = 0
        self.has_failed = False  # the last try to relay a message, so that a long failure is reported once
        self.tried = ""  # the id of the request that was handled last, with or without an answer
        self.tried_since = 0.0  # when it was handled first (the clock of the event loop)
        self.task: asyncio.Task[None] | None = None

    def may_abandon(self, after_s: float) -> bool:
        """Return whether a newer request is handled beside the one in work. No more than two are at a time."""
        if self.handled_since is None or self.is_answering:
            return False
        is_old = asyncio.get_running_loop().time() - self.handled_since >= after_s
        return is_old and (self.abandoned is None or self.abandoned.task is None)

    def may_try(self, request: RelayRequest) -> bool:
        """Return whether to handle a request. False if it could not be read or answered for too long."""
        now = asyncio.get_running_loop().time()
        if self.tried != request.id:
            self.tried, self.tried_since = request.id, now
        return now - self.tried_since <= TRY_FOR_S + request.size / SLOWEST_BYTES_PER_S


class RelayPump:
    """Answers the requests in the mailboxes of one relay.

    The requests of a channel are answered one after the other. If the agent has given one up that takes long, the next
    one is handled beside it, and the one that was given up gets no answer.

    A request is answered again if the server stops before it has written the answer, or if another server answers it
    too. Agents repeat requests in the same way over HTTP, so the agent API handles a repeated request like the first.
    """

    def __init__(
        self,
        transport: RelayTransport,
        handle: HandleRequest,
        report: Report,
        *,
        abandon_after_s: float = EXTRA_WAIT_S,  # agents wait for longer
    ) -> None:
        self._abandon_after_s = abandon_after_s
        self._transport = transport
        self._handle = handle
        self._report = report
        self._channels: dict[ChannelKey, ChannelState] = {}
        self._slots = asyncio.Semaphore(CONCURRENT_REQUESTS)

    async def poll(self, mailboxes: Mapping[str, int]) -> int:
        """Look for new requests once, and begin to answer them. Return how many there are.

        `mailboxes` has the number of nodes of each.
        """
        begun = 0
        versions = await self._transport.versions(mailboxes)
        for mailbox, channels in versions.items():
            for channel, version in channels.items():
                key = ChannelKey(mailbox, channel)
                state = self._channels.setdefault(key, ChannelState())
                if state.task is None and state.version != version:
                    self._begin(key, state, version)
                    begun += 1
                elif state.task is not None and state.in_work != version:
                    begun += self._abandon(key, state, version)
        return begun

    def _begin(self, key: ChannelKey, state: ChannelState, version: str) -> None:
        state.in_work = version
        state.task = asyncio.create_task(self._run_channel(key, state, version))

    def _abandon(self, key: ChannelKey, state: ChannelState, version: str) -> int:
        """Handle that the agent has given up the request in work, and has sent another. Return how many begin now."""
        assert state.task is not None
        if state.is_waiting:
            state.task.cancel()  # nobody waits for the orders any more
            return 0
        if not state.may_abandon(self._abandon_after_s):
            return 0
        newer = ChannelState()
        newer.abandoned, newer.answered = state, state.answered
        state.abandoned = None
        self._channels[key] = newer
        self._begin(key, newer, version)
        return 1

    def forget(self, mailbox: str) -> None:
        """Stop answering the requests of a mailbox."""
        for key in [key for key in self._channels if key.mailbox == mailbox]:
            for task in _tasks(self._channels.pop(key)):
                task.cancel()

    async def close(self) -> None:
        """Stop answering. Requests without an answer are answered by the server that comes next."""
        tasks = [task for state in self._channels.values() for task in _tasks(state)]
        self._channels.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run_channel(self, key: ChannelKey, state: ChannelState, version: str) -> None:
        try:
            has_news = await self._answer(key, state)
        except Exception as error:  # noqa: BLE001  the store may be away: the request is read again in the next round
            if not state.has_failed:
                self._report(f"a message of {key.mailbox} could not be relayed; it is tried again", error)
            state.has_failed = True
        else:
            state.has_failed = False
            state.rechecks = 0 if has_news else state.rechecks + 1
            if has_news or state.rechecks > RECHECKS:
                state.version, state.rechecks = version, 0
        finally:
            state.task, state.handled_since = None, None
            state.is_waiting = state.is_answering = False

    async def _answer(self, key: ChannelKey, state: ChannelState) -> bool:
        """Answer the request of a channel. Return False if it has none that is complete and not answered yet."""
        if state.answered is None:
            state.answered = await self._last_answered(key)
        async with aclosing(self._transport.read(MailboxFile(*key, REQUEST))) as pieces:
            try:
                message = await read_head(pieces)
                if message is None or message[0]["id"] == state.answered:
                    return False
                request = parse_request(message[0])
                if not state.may_try(request):
                    return False
                if self._is_handled_already(key, state, request):
                    return False
                state.is_waiting = request.path.startswith(WAITING)
                state.handled_since = asyncio.get_running_loop().time()
                await self._pass_on(key, state, request, message[1])
            except BadMessage:
                return False
        state.answered = message[0]["id"]
        return True

    def _is_handled_already(self, key: ChannelKey, state: ChannelState, request: RelayRequest) -> bool:
        """Return whether the older task handles this very request: it had read more than was listed when it began.

        Then the older task goes on to the answer.
        """
        older = state.abandoned
        if older is None or older.task is None or older.tried != request.id:
            return False
        older.in_work = state.in_work
        self._channels[key] = older
        return True

    async def _pass_on(
        self, key: ChannelKey, state: ChannelState, request: RelayRequest, body: MessageBody
    ) -> None:
        if request.path.startswith(WAITING):
            await self._handle_and_write(key, state, request, body)
        else:
            async with self._slots:
                await self._handle_and_write(key, state, request, body)

    async def _handle_and_write(
        self, key: ChannelKey, state: ChannelState, request: RelayRequest, body: MessageBody
    ) -> None:
        renewed = None
        async with self._handle(request, body) as answer:
            if body.failure is not None:
                raise body.failure
            if self._channels.get(key) is not state:
                return  # the agent waits for the answer to a newer request
            state.is_answering = True
            if state.handled != request.id:  # the agent waits for as long as the handling takes
                state.handled, state.tried_since = request.id, asyncio.get_running_loop().time()
            if request.expires_at is not None:
                node = int(key.channel.partition("-")[0])
                renewed = await self._transport.renew(key.mailbox, node, request.expires_at)
            await self._transport.write(MailboxFile(*key, ANSWER), encode_answer(request.id, answer, renewed))

    async def _last_answered(self, key: ChannelKey) -> str:
        """Return the id of the request whose answer is in the mailbox, "" if there is no answer.

        So a server that starts does not handle an answered request again, which would look like a report of the agent.
        """
        async with aclosing(self._transport.read(MailboxFile(*key, ANSWER))) as pieces:
            try:
                message = await read_head(pieces)
            except BadMessage:
                return ""
        return "" if message is None else str(message[0]["id"])


def _tasks(state: ChannelState) -> list[asyncio.Task[None]]:
    states = [state] if state.abandoned is None else [state, state.abandoned]
    return [each.task for each in states if each.task is not None]
