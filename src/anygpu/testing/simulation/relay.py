"""A simulated relay: mailboxes in memory that may show old listings and messages, and the agent's side of them."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, cast

from anygpu.agent.link import mailbox as mailbox_format
from anygpu.agent.link.mailbox import ANSWER, REQUEST, channel_names, encode_head
from anygpu.backends.relay.contract import MailboxFile, RelayTicket
from anygpu.errors import AnygpuError, BackendUnavailable, ServerUnreachable
from anygpu.server.relay.messages import MessageBody, RelayAnswer, RelayRequest
from anygpu.testing.simulation.faults import Fault, FaultInjector
from anygpu.testing.simulation.virtual_time import VirtualLoop

if TYPE_CHECKING:
    from anygpu.testing.simulation.control_process import ControlProcess

T = TypeVar("T")
Invoke = Callable[["ControlProcess"], Awaitable[Any]]
POLL_S = 2.0
AGENT_POLL_S = 1.0
TIMEOUT_S = 25.0


@dataclass(slots=True)
class StoredMessage:
    """A message, the one before it, and the time from which all readers see the new one."""

    version: int
    content: bytes
    visible_at: float
    previous: bytes = b""


@dataclass(slots=True)
class SimRelay:
    """Mailboxes that survive crashes of processes and machines.

    A message is the number of a call: the call itself, and what it returned, are kept beside the mailboxes. So the
    processes handle the calls of simulated agents in the same way as those that arrive over the network.
    """

    loop: VirtualLoop
    faults: FaultInjector
    problem: Callable[[str], None]
    poll_s: float = POLL_S
    busy_poll_s: float = POLL_S
    files: dict[str, dict[str, StoredMessage]] = field(default_factory=dict)  # by mailbox and name
    calls: list[Invoke] = field(default_factory=list)
    results: list[Any] = field(default_factory=list)
    _listed: dict[str, dict[str, str]] = field(default_factory=dict)

    # -- the server's side -------------------------------------------------------------------------------------

    async def open(self, mailbox: str, *, nodes: int = 1) -> Sequence[RelayTicket]:
        self._maybe_fail()
        self.files.setdefault(mailbox, {})
        return [{"kind": "sim", "mailbox": mailbox}] * nodes

    async def versions(self, mailboxes: Mapping[str, int]) -> Mapping[str, Mapping[str, str]]:
        self._maybe_fail()
        if not self.faults.occurs(Fault.RELAY_LISTING_STALE):
            self._listed = {name: self._request_versions(name) for name in self.files}
        return {name: self._listed.get(name, {}) for name in mailboxes}

    async def read(self, file: MailboxFile) -> AsyncGenerator[bytes, None]:
        self._maybe_fail()
        content = self._visible(file.mailbox, file.name)
        if content:
            yield content

    async def write(self, file: MailboxFile, pieces: AsyncIterator[bytes]) -> None:
        content = b"".join([piece async for piece in pieces])
        self._maybe_fail()
        self._store(file.mailbox, file.name, content)

    async def renew(self, mailbox: str, node: int, expires_at: float) -> RelayTicket | None:
        return None

    async def mailboxes(self) -> Sequence[str]:
        self._maybe_fail()
        return sorted(self.files)

    async def remove(self, mailbox: str) -> None:
        self._maybe_fail()
        self.files.pop(mailbox, None)

    def handler(self, process: "ControlProcess") -> Callable[[RelayRequest, MessageBody], Any]:
        """Return the function with which a process handles a request: it makes the call that the request names."""

        @asynccontextmanager
        async def handle(request: RelayRequest, body: MessageBody) -> AsyncIterator[RelayAnswer]:
            number = int(b"".join([piece async for piece in body]))
            self.results.append(await self._invoke(process, self.calls[number]))
            content = str(len(self.results) - 1).encode()
            yield RelayAnswer(status=200, headers={}, size=len(content), body=_one_piece(content))

        return handle

    async def _invoke(self, process: "ControlProcess", call: Invoke) -> Any:
        try:
            return await call(process)
        except AnygpuError as error:
            return error
        except Exception as error:  # noqa: BLE001  a server would answer 500, and that is a bug
            self.problem(f"{process.name} answered a message with {error!r}")
            return ServerUnreachable("500")

    def _maybe_fail(self) -> None:
        if self.faults.occurs(Fault.RELAY_DOWN):
            raise BackendUnavailable("the store of the relay does not answer")

    # -- both sides --------------------------------------------------------------------------------------------

    def write_request(self, mailbox: str, name: str, content: bytes) -> None:
        if mailbox not in self.files:
            raise ServerUnreachable("the mailbox does not exist")
        self._store(mailbox, name, content)

    def read_answer(self, mailbox: str, name: str) -> bytes:
        return self._visible(mailbox, name)

    def _store(self, mailbox: str, name: str, content: bytes) -> None:
        files = self.files.setdefault(mailbox, {})
        known = files.get(name)
        delay_s = self.faults.uniform(1, 10) if self.faults.occurs(Fault.RELAY_MESSAGE_LATE) else 0.0
        visible_at = max(self.loop.time() + delay_s, known.visible_at if known else 0.0)
        version = known.version + 1 if known else 1
        files[name] = StoredMessage(version, content, visible_at, self._now(known))

    def _visible(self, mailbox: str, name: str) -> bytes:
        message = self.files.get(mailbox, {}).get(name)
        if message is not None and self.faults.occurs(Fault.RELAY_READ_STALE):
            return message.previous
        return self._now(message)

    def _now(self, message: StoredMessage | None) -> bytes:
        if message is None:
            return b""
        return message.content if message.visible_at <= self.loop.time() else message.previous

    def _request_versions(self, mailbox: str) -> dict[str, str]:
        found = {}
        for name, message in self.files[mailbox].items():
            channel, _, kind = name.partition(".")
            if kind == REQUEST and message.visible_at <= self.loop.time():
                found[channel] = str(message.version)
        return found


class RelayLine:
    """The agent's side of a mailbox, on one machine."""

    def __init__(
        self, relay: SimRelay, ticket: RelayTicket, node: int, session: str, is_cut_off: Callable[[], bool]
    ) -> None:
        self._relay = relay
        self._mailbox = str(ticket["mailbox"])
        self._session = session
        self._is_cut_off = is_cut_off
        self._free = [*channel_names(node)]
        self._count = 0

    async def call(self, invoke: Callable[["ControlProcess"], Awaitable[T]]) -> T:
        """Make a call through the mailbox. Return its result, or raise the error that it raised."""
        self._count += 1
        request_id = f"{self._session}-{self._count}"
        channel = self._free.pop(0)
        try:
            self._write(channel, request_id, invoke)
            result = await self._wait_for_answer(channel, request_id)
        finally:
            self._free.insert(0, channel)
        if isinstance(result, AnygpuError):
            raise result
        return cast(T, result)

    def _write(self, channel: str, request_id: str, invoke: Invoke) -> None:
        if self._is_cut_off() or self._relay.faults.occurs(Fault.REQUEST_LOST):
            raise ServerUnreachable("the message was not written")
        self._relay.calls.append(invoke)
        body = str(len(self._relay.calls) - 1).encode()
        head = {"id": request_id, "method": "POST", "path": "/", "headers": {}, "size": len(body)}
        name = mailbox_format.file_name(channel, REQUEST)
        self._relay.write_request(self._mailbox, name, encode_head(head) + body)

    async def _wait_for_answer(self, channel: str, request_id: str) -> Any:
        deadline = self._relay.loop.time() + TIMEOUT_S
        name = mailbox_format.file_name(channel, ANSWER)
        while self._relay.loop.time() < deadline:
            await asyncio.sleep(AGENT_POLL_S)
            line, _, body = self._relay.read_answer(self._mailbox, name).partition(b"\n")
            if (
                line
                and not self._is_cut_off()
                and mailbox_format.answers(mailbox_format.parse_head(line + b"\n"), request_id)
            ):
                return self._relay.results[int(body)]
        raise ServerUnreachable("there was no answer in the mailbox")


async def _one_piece(content: bytes) -> AsyncIterator[bytes]:
    yield content
