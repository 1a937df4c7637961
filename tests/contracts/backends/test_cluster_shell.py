"""Programs on a login node share one SSH connection, and do not disturb each other."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from anygpu.backends.slurm.shell import ClusterOutcomeUnknown, SshShell
from anygpu.backends.ssh.connection import SshConnector
from anygpu.backends.ssh.errors import SshUnreachable
from anygpu.backends.ssh.keys import HostKeyStore
from anygpu.testing.contracts.backend import wait_until
from anygpu.testing.servers.cuttable_proxy import CuttableProxy
from anygpu.testing.servers.ssh_host import open_ssh_host

SLOW_S = 5.0  # much longer than it takes to start a program


class LoginNode:
    """A shell on a login node, and the connection to it."""

    def __init__(self, shell: SshShell, wire: CuttableProxy, home: Path) -> None:
        self.shell, self.wire, self.home = shell, wire, home

    async def has(self, name: str) -> None:
        await wait_until(lambda: (self.home / name).exists())


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[LoginNode]:
    async with open_ssh_host("asyncssh", tmp_path / "home") as host, CuttableProxy(host.port) as wire:
        shell = SshShell(host.login(port=wire.port), SshConnector(HostKeyStore(tmp_path / "pins")))
        yield LoginNode(shell, wire, host.home)
        await shell.close()


async def test_a_program_that_takes_too_long_does_not_end_the_others(node: LoginNode) -> None:
    other = asyncio.create_task(node.shell.run("touch runs; until [ -e go ]; do sleep 0.1; done; echo done"))
    await node.has("runs")
    with pytest.raises(ClusterOutcomeUnknown, match="did not end within 5 s"):
        await node.shell.run("cat > /dev/null; touch closed", timeout_s=SLOW_S)
    await node.has("closed")  # its session was closed, not only forgotten
    (node.home / "go").touch()
    assert (await other).output == "done\n"
    assert node.wire.connections == 1


async def test_the_program_of_a_cancelled_caller_ends(node: LoginNode) -> None:
    caller = asyncio.create_task(node.shell.run("touch runs; cat > /dev/null; touch closed"))
    await node.has("runs")
    caller.cancel()
    await node.has("closed")
    assert (await node.shell.run("echo still here")).output == "still here\n"
    assert node.wire.connections == 1


async def test_a_lost_connection_is_opened_again(node: LoginNode) -> None:
    caller = asyncio.create_task(node.shell.run("touch runs; cat > /dev/null"))
    await node.has("runs")
    node.wire.cut()
    with pytest.raises(ClusterOutcomeUnknown, match="box"):
        await caller
    assert (await node.shell.run("echo again")).output == "again\n"
    assert node.wire.connections == 2


async def test_a_login_node_that_refuses_connections_has_started_nothing(node: LoginNode) -> None:
    node.wire.take_down()
    with pytest.raises(SshUnreachable):
        await node.shell.run("touch never")
    assert not (node.home / "never").exists()
