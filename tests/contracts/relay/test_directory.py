"""A relay in a directory: the promises of every relay, and what a hostile job may put into its mailbox."""

import asyncio
import contextlib
import os
import stat
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import IO, TypeVar

import pytest

from anygpu.agent.link.http11 import Unreachable
from anygpu.agent.link.mailbox import ANSWER, MailboxDirectory, MailboxDraft, channel_names, encode_head
from anygpu.agent.link.relay import EXTRA_WAIT_S, SLOWEST_BYTES_PER_S, DirectoryMailbox, RelayAddress
from anygpu.backends.relay.contract import MailboxFile
from anygpu.backends.relay.directory import DirectoryRelay
from anygpu.errors import BackendUnavailable
from anygpu.server.relay.messages import MessageBody, RelayAnswer, RelayRequest
from anygpu.server.relay.pump import CONCURRENT_REQUESTS
from anygpu.testing.contracts.relay import (
    DOWNLOAD_BYTES,
    DOWNLOAD_PATH,
    NAME,
    WAIT_S,
    EchoServer,
    RelayAgent,
    RelayContract,
)

T = TypeVar("T")


@pytest.fixture
def relay(tmp_path: Path) -> DirectoryRelay:
    return DirectoryRelay(tmp_path / "relay")


class TestDirectoryRelay(RelayContract):
    """Keeps the promises of every relay."""


async def opened(relay: DirectoryRelay) -> tuple[Path, RelayAgent]:
    [ticket] = await relay.open(NAME)
    return Path(ticket["path"]), RelayAgent(ticket)


def test_a_mailbox_gets_the_permissions_of_the_directory(tmp_path: Path) -> None:
    for mode in (0o700, 0o2770):
        root = tmp_path / oct(mode)
        root.mkdir()
        root.chmod(mode)
        path = Path(MailboxDirectory(str(root)).create(NAME))
        assert stat.S_IMODE(path.stat().st_mode) == mode
        assert stat.S_IMODE(Path(MailboxDirectory(str(root)).create(NAME)).stat().st_mode) == mode


def test_a_mailbox_that_a_killed_server_has_begun_gets_its_permissions(tmp_path: Path) -> None:
    root = tmp_path / "relay"
    root.mkdir()
    root.chmod(0o2770)
    (root / NAME).mkdir(0o700)
    path = Path(MailboxDirectory(str(root)).create(NAME))
    assert stat.S_IMODE(path.stat().st_mode) == 0o2770


async def test_a_directory_in_which_everybody_can_replace_mailboxes_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "relay"
    root.mkdir()
    root.chmod(0o777)
    with pytest.raises(BackendUnavailable, match="chmod o-w"):
        await DirectoryRelay(root).open(NAME)
    root.chmod(0o1777)  # other users may add files, and remove only their own
    assert await DirectoryRelay(root).open(NAME)
    assert stat.S_IMODE((root / NAME).stat().st_mode) & 0o007 == 0


async def test_a_mailbox_that_another_user_has_prepared_is_refused(
    relay: DirectoryRelay, monkeypatch: pytest.MonkeyPatch
) -> None:
    await relay.open(NAME)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(BackendUnavailable, match="another user has created it"):
        await relay.open(NAME)


async def test_an_error_of_the_file_system_is_a_lost_connection(relay: DirectoryRelay) -> None:
    """The threads of the agent try again after a lost connection; any other error would end them."""
    path, _ = await opened(relay)
    mailbox = DirectoryMailbox(str(path))
    with pytest.raises(Unreachable, match="cannot be read"):
        mailbox.read(0, "x" * 300)  # the name is too long for any file system
    path.rmdir()
    mailbox.clean("0-0", "request")


async def test_nodes_that_wait_for_each_other_do_not_delay_other_requests(relay: DirectoryRelay) -> None:
    boxes = [f"{NAME}-{number}" for number in range(CONCURRENT_REQUESTS // 4)]
    _, agent = await opened(relay)
    async with EchoServer(relay).running(NAME, *boxes) as server:
        for box in boxes:
            [ticket] = await relay.open(box)
            for channel in channel_names():
                head = {"id": "a", "method": "POST", "path": "/agent/v1/ready?wait_s=5", "headers": {}}
                DirectoryMailbox(ticket["path"]).write(0, channel, encode_head({**head, "size": 0}), b"")
        async with asyncio.timeout(WAIT_S):
            while len(server.paths) < CONCURRENT_REQUESTS:
                await asyncio.sleep(0.05)
        assert await agent.ask("/mine", timeout_s=-20) == b"/mine "


class SlowServer(EchoServer):
    """Needs three seconds for each request: before it answers one with a body, and while it writes other answers."""

    @asynccontextmanager
    async def _handle(self, request: RelayRequest, body: MessageBody) -> AsyncIterator[RelayAnswer]:
        content = b"".join([piece async for piece in body])
        if content:
            await asyncio.sleep(3)
            yield RelayAnswer(status=200, headers={}, size=2, body=_pieces(b"ok", 0))
        else:
            yield RelayAnswer(status=200, headers={}, size=3000, body=_pieces(b"x" * 3000, 0.1))


async def _pieces(content: bytes, pause_s: float) -> AsyncIterator[bytes]:
    for start in range(0, len(content), 100):
        await asyncio.sleep(pause_s)
        yield content[start : start + 100]


@pytest.mark.extended
async def test_a_slow_connection_delivers_large_messages(relay: DirectoryRelay) -> None:
    """A request waits longer the larger it is, and as long as its answer is being written."""
    _, agent = await opened(relay)
    one_second = 1 - EXTRA_WAIT_S
    async with SlowServer(relay).running(NAME):
        with pytest.raises(Unreachable):
            await agent.ask("/small", b"x", one_second)
        assert await agent.ask("/large", b"x" * 10 * SLOWEST_BYTES_PER_S, one_second) == b"ok"
        assert await agent.ask("/download", b"", one_second) == b"x" * 3000


class StuckServer(EchoServer):
    """Does not answer requests for `/long…` before `leave` is set."""

    abandon_after_s = 0.0

    def __init__(self, relay: DirectoryRelay) -> None:
        super().__init__(relay)
        self.leave = asyncio.Event()
        self.handled: list[str] = []

    @asynccontextmanager
    async def _handle(self, request: RelayRequest, body: MessageBody) -> AsyncIterator[RelayAnswer]:
        self.paths.append(request.path)
        if request.path.startswith("/long"):
            await self.leave.wait()
        self.handled.append(request.path)
        yield RelayAnswer(status=200, headers={}, size=2, body=_pieces(b"ok", 0))


def write_request(path: Path, name: str) -> None:
    """Write a request to the first channel, in place of the one that is there."""
    head = {"id": name, "method": "POST", "path": f"/{name}", "headers": {}, "size": 0}
    DirectoryMailbox(str(path)).write(0, channel_names()[0], encode_head(head), b"")


async def until_in(listed: list[str], path: str) -> None:
    async with asyncio.timeout(WAIT_S):
        while path not in listed:
            await asyncio.sleep(0.01)


async def test_a_request_that_was_given_up_does_not_block_its_channel(relay: DirectoryRelay) -> None:
    path, agent = await opened(relay)
    server = StuckServer(relay)
    async with server.running(NAME):
        write_request(path, "long")
        await until_in(server.paths, "/long")
        assert await agent.ask("/short") == b"ok"
        answer = (path / f"{channel_names()[0]}.answer").read_bytes()
        server.leave.set()
        await until_in(server.handled, "/long")
        agent.address._take_channel(0)  # the first channel
        assert await agent.ask("/next") == b"ok"
        assert (path / f"{channel_names()[0]}.answer").read_bytes() == answer, "nobody waits for another one"
    assert server.paths == ["/long", "/short", "/next"]


async def test_no_more_than_two_requests_of_a_channel_are_handled_at_a_time(relay: DirectoryRelay) -> None:
    path, agent = await opened(relay)
    agent.address._take_channel(0)  # the first channel
    server = StuckServer(relay)
    async with server.running(NAME):
        for number in range(3):
            write_request(path, f"long-{number}")
            if number < 2:
                await until_in(server.paths, f"/long-{number}")
        assert await agent.ask("/mine") == b"ok"
        assert sorted(server.paths) == ["/long-0", "/long-1", "/mine"]
        server.leave.set()
        await until_in(server.handled, "/long-2")
        async with asyncio.timeout(WAIT_S):
            while b'"id":"long-2"' not in (path / f"{channel_names()[0]}.answer").read_bytes():
                await asyncio.sleep(0.01)


async def test_after_a_request_without_an_answer_the_agent_uses_another_channel(
    relay: DirectoryRelay,
) -> None:
    path, agent = await opened(relay)
    for name in ("/a", "/b"):
        with pytest.raises(Unreachable):
            await agent.ask(name, timeout_s=-EXTRA_WAIT_S)
    assert sorted(file.name for file in path.glob("*.request")) == [
        f"{name}.request" for name in channel_names()[:2]
    ]


async def test_an_agent_waits_longer_for_a_server_that_looks_rarely(relay: DirectoryRelay) -> None:
    [ticket] = await relay.open(NAME)
    address = RelayAddress({**ticket, "poll_s": 30}, 0, lambda renewed: None)
    send = partial(address.connect().request, "POST", "/rare", {}, b"", 1 - EXTRA_WAIT_S)
    asked = asyncio.create_task(asyncio.to_thread(send))
    await asyncio.sleep(2)
    async with EchoServer(relay).running(NAME):
        assert (await asked).body() == b"/rare "


async def test_messages_can_be_read_only_by_their_owner(relay: DirectoryRelay) -> None:
    path, agent = await opened(relay)
    async with EchoServer(relay).running(NAME):
        await agent.ask("/a")
    assert {stat.S_IMODE(file.stat().st_mode) for file in path.iterdir()} == {0o600}


async def test_large_messages_are_removed_when_they_have_arrived(relay: DirectoryRelay) -> None:
    path, agent = await opened(relay)
    async with EchoServer(relay).running(NAME):
        await agent.ask("/large", b"x" * 2_000_000)
    assert sum(file.stat().st_size for file in path.iterdir()) < 10_000


async def test_a_large_answer_is_removed_with_its_request(relay: DirectoryRelay) -> None:
    """Without its answer, the next server would answer the request again."""
    path, agent = await opened(relay)
    async with EchoServer(relay).running(NAME):
        assert len(await agent.ask(DOWNLOAD_PATH)) == DOWNLOAD_BYTES
    assert list(path.iterdir()) == []


async def test_files_that_are_no_messages_harm_nobody(relay: DirectoryRelay, tmp_path: Path) -> None:
    path, agent = await opened(relay)
    secret = tmp_path / "secret"
    secret.write_text('{"id": "s", "method": "GET", "path": "/stolen", "headers": {}, "size": 0}\n')
    links = channel_names()
    (path / f"{links[1]}.request").symlink_to(secret)
    os.mkfifo(path / f"{links[2]}.request")
    (path / f"{links[3]}.request").mkdir()
    (path / f"{links[4]}.request").symlink_to("/dev/zero")
    async with EchoServer(relay).running(NAME) as server:
        assert await agent.ask("/mine") == b"/mine "
    assert server.paths == ["/mine"]
    assert server.failures == []


async def test_an_answer_is_not_written_through_a_link(relay: DirectoryRelay, tmp_path: Path) -> None:
    path, agent = await opened(relay)
    precious = tmp_path / "precious"
    precious.write_text("precious")
    for name in (f"{channel_names()[0]}.answer", f".{channel_names()[0]}.answer.draft"):
        (path / name).symlink_to(precious)
    async with EchoServer(relay).running(NAME):
        assert await agent.ask("/a") == b"/a "
    assert precious.read_text() == "precious"


async def test_a_huge_file_is_not_read_as_a_whole(relay: DirectoryRelay) -> None:
    path, agent = await opened(relay)
    with (path / f"{channel_names()[1]}.request").open("wb") as file:
        file.truncate(2**40)  # a sparse file of one tebibyte
    async with EchoServer(relay).running(NAME) as server:
        assert await agent.ask("/mine") == b"/mine "
    assert server.paths == ["/mine"]


async def test_a_mailbox_that_became_a_link_is_neither_read_nor_followed(
    relay: DirectoryRelay, tmp_path: Path
) -> None:
    path, _ = await opened(relay)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept").write_text("kept")
    (elsewhere / f"{channel_names()[0]}.request").write_text('{"id": "x", "size": 0}\n')
    path.rmdir()
    path.symlink_to(elsewhere)
    assert (await relay.versions({NAME: 1}))[NAME] == {}
    with pytest.raises(BackendUnavailable):
        await relay.open(NAME)
    await relay.remove(NAME)
    assert not path.is_symlink()
    assert (elsewhere / "kept").read_text() == "kept"


async def test_many_other_files_do_not_matter(relay: DirectoryRelay) -> None:
    path, agent = await opened(relay)
    for number in range(3000):
        (path / f"rubbish-{number}").touch()
    async with EchoServer(relay).running(NAME):
        assert await agent.ask("/a") == b"/a "
    await relay.remove(NAME)
    assert not path.exists()


@pytest.mark.parametrize("name", ["", "..", "a/b", "../x", ".hidden", "nul\0"])
async def test_a_name_that_leaves_the_directory_is_refused(relay: DirectoryRelay, name: str) -> None:
    with pytest.raises(ValueError, match="name of a mailbox"):
        await relay.remove(name)


async def test_a_directory_that_cannot_be_written_is_explained(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    with pytest.raises(BackendUnavailable, match="cannot be created in the relay directory"):
        await DirectoryRelay(tmp_path / "file" / "relay").open(NAME)


async def test_a_request_that_shrinks_while_it_is_read_is_not_answered(relay: DirectoryRelay) -> None:
    path, agent = await opened(relay)
    request = path / f"{channel_names()[1]}.request"
    request.write_text('{"id": "x", "method": "POST", "path": "/short", "headers": {}, "size": 5000}\nabc')
    async with EchoServer(relay).running(NAME) as server:
        await agent.ask("/mine")
        await asyncio.sleep(0.3)
    assert not (path / f"{channel_names()[1]}.answer").exists()
    assert server.paths.count("/short") <= 4, "it is given up after some tries"


class BlockedFolder(MailboxDirectory):
    """A file system that answers only when it is allowed to."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.entered, self.leave = threading.Event(), threading.Event()

    def begin(self, mailbox: str, name: str) -> MailboxDraft:
        return self._after_pause(super().begin(mailbox, name))

    def open(self, mailbox: str, name: str) -> IO[bytes] | None:
        return self._after_pause(super().open(mailbox, name))

    def _after_pause(self, opened: T) -> T:
        self.entered.set()
        assert self.leave.wait(WAIT_S)
        return opened


@pytest.mark.parametrize("what", ["read", "write"])
async def test_a_call_that_is_cancelled_while_it_opens_a_file_leaves_it_closed(
    relay: DirectoryRelay, what: str
) -> None:
    path, _ = await opened(relay)
    message = MailboxFile(NAME, channel_names()[0], ANSWER)
    (path / message.name).write_text("before")
    blocked = relay._directory = BlockedFolder(str(path.parent))
    files = open_files(path)

    async def read() -> None:
        async for _ in relay.read(message):
            raise AssertionError("it was cancelled")

    call = asyncio.create_task(read() if what == "read" else relay.write(message, _pieces(b"after", 0)))
    await asyncio.to_thread(blocked.entered.wait, WAIT_S)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    assert open_files(path) > files
    blocked.leave.set()
    async with asyncio.timeout(WAIT_S):
        while open_files(path) > files:
            await asyncio.sleep(0.01)
    assert [file.name for file in path.iterdir()] == [message.name]
    assert (path / message.name).read_text() == "before"


def open_files(folder: Path) -> int:
    """Return how many files of a directory, or the directory itself, this process has open."""
    count = 0
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # another thread may have closed it
            count += str(folder) in str(descriptor.readlink())
    return count
