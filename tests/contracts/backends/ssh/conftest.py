"""A connection rig with its own SSH host for each test, on OpenSSH if it is installed."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.contracts.backends.ssh.connection_rig import ConnectionRig

from anygpu.agent.host import processes
from anygpu.testing.servers.agent_listener import AgentListener
from anygpu.testing.servers.cuttable_proxy import CuttableProxy
from anygpu.testing.servers.ssh_host import BEST_SERVER, ServerKind, open_ssh_host


@pytest.fixture
def work() -> dict[str, object]:
    return {"shell": "sleep 1000"}


@pytest.fixture
def kind() -> ServerKind:
    return BEST_SERVER


@pytest.fixture
async def rig(kind: ServerKind, tmp_path: Path, work: dict[str, object]) -> AsyncIterator[ConnectionRig]:
    with AgentListener(work) as listener:
        async with open_ssh_host(kind, tmp_path / "home") as box, CuttableProxy(box.port) as wire:
            made = ConnectionRig(tmp_path, box, wire, listener)
            yield made
            for link in made.links:
                await link.stop()
            processes.kill_attempt(made.name)
