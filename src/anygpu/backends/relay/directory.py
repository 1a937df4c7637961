"""Mailboxes in a directory that the server and the machines of the agents share, such as a cluster file system."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import ParamSpec, TypeVar

from anygpu.agent.link.mailbox import BLOCK_BYTES, MailboxDirectory, MailboxDraft
from anygpu.backends.relay.contract import MailboxFile, RelayTicket
from anygpu.errors import BackendUnavailable

POLL_S, BUSY_POLL_S = 0.5, 0.1
THREADS = 8  # a network file system that hangs must not block the threads of others
_P = ParamSpec("_P")
_Result = TypeVar("_Result")


class DirectoryRelay:
    """Mailboxes in a local directory. `agent_path` is its path on the machines of the agents, if it differs."""

    def __init__(self, path: Path, *, agent_path: str = "", poll_s: float = POLL_S) -> None:
        self.poll_s = poll_s
        self.busy_poll_s = min(poll_s, BUSY_POLL_S)
        self._directory = MailboxDirectory(str(path))
        self._agent_path = agent_path or str(path)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="relay")

    async def open(self, mailbox: str, *, nodes: int = 1) -> Sequence[RelayTicket]:
        try:
            await self._run(self._directory.create, mailbox)
        except OSError as error:
            raise BackendUnavailable(
                f"The mailbox of {mailbox} cannot be created in the relay directory {self._directory.root}: {error}",
                hint="Check that the directory exists, that the server may write to it, and its free space.",
            ) from error
        ticket = {"kind": "directory", "path": f"{self._agent_path}/{mailbox}", "poll_s": self.poll_s}
        return [ticket] * nodes

    async def versions(self, mailboxes: Mapping[str, int]) -> Mapping[str, Mapping[str, str]]:
        return await self._run(self._directory.versions, mailboxes)

    async def read(self, file: MailboxFile) -> AsyncGenerator[bytes, None]:
        opened = await self._open(self._directory.open, file, lambda found: found and found.close())
        if opened is None:
            return
        try:
            while block := await self._run(opened.read, BLOCK_BYTES):
                yield block
        finally:
            self._threads.submit(opened.close)  # it waits for a read that was cancelled and still runs

    async def write(self, file: MailboxFile, pieces: AsyncIterator[bytes]) -> None:
        draft = await self._open(self._directory.begin, file, MailboxDraft.discard)
        turn = Lock()  # a call that was cancelled may still run, and must not lose its descriptors
        try:
            async for piece in pieces:
                await self._run(_in_turn, turn, draft.write, piece)
            await self._run(_in_turn, turn, draft.publish)
        finally:
            discarded = self._threads.submit(_in_turn, turn, draft.discard)
            await asyncio.shield(asyncio.wrap_future(discarded))

    async def renew(self, mailbox: str, node: int, expires_at: float) -> RelayTicket | None:
        return None

    async def mailboxes(self) -> Sequence[str]:
        return await self._run(self._directory.names)

    async def remove(self, mailbox: str) -> None:
        while not await self._run(self._directory.remove, mailbox):
            pass  # the thread has served other calls in between

    async def _open(
        self, call: Callable[[str, str], _Result], file: MailboxFile, close: Callable[[_Result], object]
    ) -> _Result:
        """Run a call that opens something. If this is cancelled, `close` is called with what it opens."""
        opening = self._threads.submit(call, file.mailbox, file.name)
        try:
            return await asyncio.shield(asyncio.wrap_future(opening))
        except asyncio.CancelledError:
            opening.add_done_callback(lambda done: None if done.exception() else close(done.result()))
            raise

    async def _run(self, call: Callable[_P, _Result], *args: _P.args, **kwargs: _P.kwargs) -> _Result:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, lambda: call(*args, **kwargs))


def _in_turn(turn: Lock, call: Callable[_P, _Result], *args: _P.args, **kwargs: _P.kwargs) -> _Result:
    with turn:
        return call(*args, **kwargs)
