"""Mailboxes in a directory of a machine that the server reaches over SSH, such as the login node of a cluster."""

import asyncio
import base64
import contextlib
import json
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

from anygpu.backends.relay.contract import MailboxFile, RelayTicket
from anygpu.backends.ssh.bootstrap import BootstrapSession
from anygpu.errors import BackendUnavailable, LaunchError

if TYPE_CHECKING:
    import asyncssh

Connect = Callable[[], Awaitable["asyncssh.SSHClientConnection"]]
POLL_S, BUSY_POLL_S = 1.0, 0.25
REQUEST_LIMIT_S = 60.0
MAILBOXES_PER_REQUEST = 500  # an answer is one line, which must fit into the buffer of the SSH connection
READS_AHEAD = 4
WRITE_BYTES = 256 * 1024


class SshRelay:
    """Mailboxes below `path` on a machine. `connect` returns an open SSH connection to it.

    One command on the machine handles all requests. It is started again when the connection was lost. `agent_path` is
    the path of the directory on the machines of the agents, if it differs.
    """

    def __init__(
        self,
        connect: Connect,
        path: str,
        *,
        machine: str,
        agent_path: str = "",
        python: str = "",
        poll_s: float = POLL_S,
    ) -> None:
        self.poll_s = poll_s
        self.busy_poll_s = min(poll_s, BUSY_POLL_S)
        self._connect = connect
        self._path = path
        self._machine = machine
        self._agent_path = agent_path
        self._python = python
        self._session: _MailboxSession | None = None
        self._opening = asyncio.Lock()

    async def open(self, mailbox: str, *, nodes: int = 1) -> Sequence[RelayTicket]:
        answer = await self._ask({"do": "create", "mailbox": mailbox})
        path = f"{self._agent_path}/{mailbox}" if self._agent_path else answer["path"]
        return [{"kind": "directory", "path": path, "poll_s": self.poll_s}] * nodes

    async def versions(self, mailboxes: Mapping[str, int]) -> Mapping[str, Mapping[str, str]]:
        found: dict[str, dict[str, str]] = {}
        items = [*mailboxes.items()]
        for start in range(0, len(items), MAILBOXES_PER_REQUEST):
            part = dict(items[start : start + MAILBOXES_PER_REQUEST])
            found |= (await self._ask({"do": "versions", "mailboxes": part}))["versions"]
        return found

    async def read(self, file: MailboxFile) -> AsyncGenerator[bytes, None]:
        session = await self._get_session()
        number = await session.open_file({"do": "open", "mailbox": file.mailbox, "name": file.name}, "file")
        if number is None:
            return
        try:
            async for block in session.read_blocks(number):
                yield block
        finally:
            session.enqueue_request({"do": "close", "opened": number})

    async def write(self, file: MailboxFile, pieces: AsyncIterator[bytes]) -> None:
        session = await self._get_session()
        draft = await session.open_file({"do": "begin", "mailbox": file.mailbox, "name": file.name}, "draft")
        try:
            async for piece in pieces:
                for start in range(0, len(piece), WRITE_BYTES):
                    data = base64.b64encode(piece[start : start + WRITE_BYTES]).decode()
                    await session.ask({"do": "write", "draft": draft, "data": data})
            await session.ask({"do": "publish", "draft": draft})
        finally:
            session.enqueue_request({"do": "close", "opened": draft})

    async def renew(self, mailbox: str, node: int, expires_at: float) -> RelayTicket | None:
        return None

    async def mailboxes(self) -> Sequence[str]:
        names: list[str] = (await self._ask({"do": "names"}))["names"]
        return names

    async def remove(self, mailbox: str) -> None:
        while not (await self._ask({"do": "remove", "mailbox": mailbox}))["done"]:
            pass  # requests for other mailboxes are handled in between

    async def close(self) -> None:
        """End the command on the machine. The connection belongs to the caller."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        return await (await self._get_session()).ask(request)

    async def _get_session(self) -> "_MailboxSession":
        async with self._opening:
            if self._session is None or self._session.is_closed:
                self._session = await _MailboxSession.open(
                    await self._connect(), self._path, self._machine, self._python
                )
            return self._session


class _MailboxSession:
    """A running command on the machine. Its answers come in the order of the requests."""

    def __init__(self, session: BootstrapSession, machine: str) -> None:
        self._session = session
        self._machine = machine
        self._numbers = count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._sending = asyncio.Lock()
        self._later: set[asyncio.Task[Any]] = set()
        self.is_closed = False
        self._reader: asyncio.Task[None] | None = None

    @classmethod
    async def open(
        cls, connection: "asyncssh.SSHClientConnection", path: str, machine: str, python: str
    ) -> "_MailboxSession":
        async with asyncio.timeout(REQUEST_LIMIT_S):
            bootstrap = await BootstrapSession.open(connection, machine=machine, python=python)
            try:
                await bootstrap.send_request({"do": "relay", "root": path})
                await bootstrap.single_answer()
            except BaseException:
                bootstrap.close()
                raise
        session = cls(bootstrap, machine)
        session._reader = asyncio.create_task(session._read_answers())
        return session

    async def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Send a request and return its answer."""
        try:
            async with asyncio.timeout(REQUEST_LIMIT_S):
                answer = await (await self.send(request))
        except TimeoutError:
            await self.close()
            raise self._lost("it did not answer in time") from None
        if "failure" in answer:
            raise BackendUnavailable(
                f"{self._machine}: a message of the relay could not be read or written: {answer['failure']}",
                hint="Check the relay's directory on that machine, its permissions and its free space.",
            )
        return answer

    async def open_file(self, request: dict[str, Any], field: str) -> int | None:
        """Send a request that opens a file, and return the number of the file, which `field` of the answer has.

        If the caller is cancelled before the answer arrives, the file is closed then.
        """
        asking = asyncio.create_task(self.ask(request))
        self._later.add(asking)
        asking.add_done_callback(self._later.discard)
        try:
            number: int | None = (await asyncio.shield(asking))[field]
        except asyncio.CancelledError:
            asking.add_done_callback(lambda done: self._close_unused(done, field))
            raise
        return number

    def _close_unused(self, asking: "asyncio.Task[dict[str, Any]]", field: str) -> None:
        if asking.cancelled() or asking.exception() is not None:
            return
        number = asking.result()[field]
        if number is not None:
            self.enqueue_request({"do": "close", "opened": number})

    async def send(self, request: dict[str, Any]) -> "asyncio.Future[dict[str, Any]]":
        if self.is_closed:
            raise self._lost("the connection is closed")
        number = next(self._numbers)
        future = self._waiting[number] = asyncio.get_running_loop().create_future()
        line = json.dumps({"n": number, **request}).encode() + b"\n"
        await asyncio.shield(self._send_line(line))  # half a line would make the rest unreadable
        return future

    async def _send_line(self, line: bytes) -> None:
        async with self._sending:
            await self._session.send_data(line)

    def enqueue_request(self, request: dict[str, Any]) -> None:
        """Send a request whose answer does not matter."""
        if not self.is_closed:
            task = asyncio.create_task(self._send_quietly(request))
            self._later.add(task)
            task.add_done_callback(self._later.discard)

    async def _send_quietly(self, request: dict[str, Any]) -> None:
        with contextlib.suppress(BackendUnavailable):
            await self.ask(request)

    async def read_blocks(self, number: int) -> AsyncIterator[bytes]:
        """Yield the content of an open file. Several reads are sent ahead, because the connection may be slow."""
        ahead: deque[asyncio.Task[dict[str, Any]]] = deque()
        try:
            while True:
                while len(ahead) < READS_AHEAD:
                    ahead.append(asyncio.create_task(self.ask({"do": "read", "file": number})))
                block = base64.b64decode((await ahead.popleft())["data"])
                if not block:
                    return
                yield block
        finally:
            for task in ahead:
                task.cancel()
            await asyncio.gather(*ahead, return_exceptions=True)

    async def close(self) -> None:
        self._fail_waiting()
        self._session.close()
        tasks = [*self._later, *([self._reader] if self._reader is not None else [])]
        for task in tasks:
            if task is not asyncio.current_task():
                task.cancel()
        others = [task for task in tasks if task is not asyncio.current_task()]
        await asyncio.gather(*others, return_exceptions=True)

    async def _read_answers(self) -> None:
        """Pass on answers until the command ends or the connection is lost. Then requests without an answer fail."""
        import asyncssh

        try:
            while (answer := await self._session.next_answer()) is not None:
                future = self._waiting.pop(answer.get("n", 0), None)
                if future is not None and not future.done():
                    future.set_result(answer)
        except (OSError, LaunchError, asyncssh.Error):
            return  # who waits for an answer gets an error, and the next request opens another session
        finally:
            self._fail_waiting()

    def _fail_waiting(self) -> None:
        self.is_closed = True
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(self._lost("the connection was lost"))
                future.exception()  # nobody may be waiting any more

    def _lost(self, why: str) -> BackendUnavailable:
        return BackendUnavailable(
            f"{self._machine}: the mailboxes of the relay cannot be read over SSH: {why}",
            hint="It is tried again. If the problem persists, check that the machine is on, and its network.",
        )
