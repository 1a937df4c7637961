"""A relay in a directory of a machine that is reached over SSH."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from anygpu.agent.link.mailbox import ANSWER, channel_names
from anygpu.backends.relay.contract import MailboxFile
from anygpu.backends.relay.ssh import SshRelay
from anygpu.backends.ssh.connection import SshConnector, disconnect
from anygpu.backends.ssh.keys import HostKeyStore
from anygpu.errors import BackendUnavailable
from anygpu.testing.contracts.relay import NAME, EchoServer, RelayAgent, RelayContract
from anygpu.testing.servers.ssh_host import BEST_SERVER, SshTestHost, open_ssh_host


class LoginNode:
    """An SSH host with a relay, and its current connection."""

    def __init__(self, host: SshTestHost, pins: Path) -> None:
        self.host = host
        self.connections = 0
        self._connector = SshConnector(HostKeyStore(pins))
        self._connection: object = None
        self.relay = SshRelay(self.connect, "~/relay", machine="login")

    async def connect(self):  # type: ignore[no-untyped-def]
        if self._connection is None or self._connection.is_closed():  # type: ignore[attr-defined]
            self._connection = await self._connector.connect(self.host.login())
            self.connections += 1
        return self._connection

    async def cut(self) -> None:
        if self._connection is not None:
            await disconnect(self._connection)  # type: ignore[arg-type]


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[LoginNode]:
    async with open_ssh_host(BEST_SERVER, tmp_path / "home") as host:
        made = LoginNode(host, tmp_path / "pins")
        yield made
        await made.relay.close()
        await made.cut()


@pytest.fixture
def relay(node: LoginNode) -> SshRelay:
    return node.relay


class TestSshRelay(RelayContract):
    """Keeps the promises of every relay."""


async def test_one_connection_serves_everything(node: LoginNode) -> None:
    [ticket] = await node.relay.open(NAME)
    assert Path(ticket["path"]).parent == node.host.home / "relay"
    async with EchoServer(node.relay).running(NAME):
        agent = RelayAgent(ticket)
        for number in range(5):
            await agent.ask(f"/{number}")
    assert node.connections == 1


async def test_a_lost_connection_loses_no_message(node: LoginNode) -> None:
    [ticket] = await node.relay.open(NAME)
    agent = RelayAgent(ticket)
    server = EchoServer(node.relay)
    for number in range(3):
        asked = asyncio.create_task(agent.ask(f"/{number}"))
        async with asyncio.timeout(60):
            while not asked.done():
                try:
                    async with server.running(NAME):
                        await asyncio.wait([asked], timeout=2)
                except BackendUnavailable:
                    continue
        assert asked.result() == f"/{number} ".encode()
        await node.cut()
    assert node.connections >= 2


async def test_nothing_stays_on_the_machine(node: LoginNode) -> None:
    await node.relay.open(NAME)
    await node.relay.close()
    await node.relay.remove(NAME)
    assert list((node.host.home / "relay").iterdir()) == []


async def test_a_call_that_is_cancelled_while_it_opens_a_file_leaves_it_closed(node: LoginNode) -> None:
    """The command on the machine has as many files open as before."""
    [ticket] = await node.relay.open(NAME)
    folder = Path(ticket["path"])
    message = MailboxFile(NAME, channel_names()[0], ANSWER)
    (folder / message.name).write_text("before")

    async def read() -> None:
        async for _ in node.relay.read(message):
            return

    for _ in range(20):
        call = asyncio.create_task(read())
        await asyncio.sleep(0)  # it has begun
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
    async with asyncio.timeout(60):
        while open_files_below(folder):
            await node.relay.mailboxes()


def open_files_below(folder: Path) -> list[str]:
    """Return the files of a directory that any process has open."""
    found = []
    for process in Path("/proc").iterdir():
        with contextlib.suppress(OSError):  # it may be no process, or one that has ended
            for file in (process / "fd").iterdir():
                with contextlib.suppress(OSError):
                    found.append(str(file.readlink()))
    return [target for target in found if target.startswith(str(folder))]


async def test_a_directory_that_cannot_be_written_is_explained(node: LoginNode) -> None:
    (node.host.home / "relay").write_text("no directory")
    with pytest.raises(BackendUnavailable, match="login: a message of the relay"):
        await node.relay.open(NAME)
