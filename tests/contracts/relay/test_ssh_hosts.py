"""Hosts that allow no reverse tunnel: their agents use the relay of the server."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from anygpu.agent.host import processes
from anygpu.backends.contract import LaunchRequest, SupportsInventory
from anygpu.backends.relay.contract import find_relay
from anygpu.backends.relay.directory import DirectoryRelay
from anygpu.backends.ssh.backend import SshBackend
from anygpu.backends.ssh.keys import HostKeyStore
from anygpu.backends.ssh.options import SshOptions
from anygpu.spec.sections import Resources
from anygpu.testing.contracts.relay import NAME, EchoServer
from anygpu.testing.servers.ssh_host import SshTestHost, open_ssh_host


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[SshTestHost]:
    async with open_ssh_host("asyncssh", tmp_path / "home") as host:
        host.allows_forwarding = False
        yield host
        processes.kill_attempt(NAME)


async def test_an_agent_on_a_host_without_tunnels_claims_through_the_mailbox(
    host: SshTestHost, tmp_path: Path
) -> None:
    relay = DirectoryRelay(tmp_path / "relay")
    options = SshOptions(
        host=f"{host.user}@127.0.0.1:{host.port}", private_key=host.key.private_openssh, relay="directory"
    )
    backend = SshBackend(
        "lab",
        options,
        secret=b"secret",
        agent_target=("127.0.0.1", 1),
        pins=HostKeyStore(tmp_path / "pins"),
        relay=relay,
    )
    assert find_relay(backend) is relay
    assert isinstance(backend, SupportsInventory)
    [offer] = await backend.offers(Resources())
    launch = LaunchRequest(
        name=NAME,
        job_id="job",
        attempt=1,
        ticket="ticket",
        agent_url="",
        resources=Resources(),
        relay=tuple(await relay.open(NAME)),
    )
    try:
        async with EchoServer(relay).running(NAME) as server:
            handle = await backend.launch(launch, offer)
            async with asyncio.timeout(60):
                while not server.paths:
                    await asyncio.sleep(0.05)
        assert server.paths[0] == "/agent/v1/claim"
        await backend.terminate(handle)
    finally:
        await backend.close()
