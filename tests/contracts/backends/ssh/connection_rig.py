"""A host with a real SSH server, a connection to it that can be cut, and a listener for its agents."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anygpu.backends.contract import LaunchRequest
from anygpu.backends.ssh.connection import SshConnector, SshLogin, SshTiming
from anygpu.backends.ssh.keys import HostKeyStore
from anygpu.backends.ssh.link import LinkState, SshLink, reattach_request
from anygpu.spec.sections import Resources
from anygpu.testing.servers.agent_listener import AgentListener
from anygpu.testing.servers.cuttable_proxy import CuttableProxy
from anygpu.testing.servers.ssh_host import SshTestHost

QUICK = SshTiming(
    tries=3, retry_interval_s=0.1, connect_s=5, keepalive_s=0.3, keepalive_misses=2, max_retry_s=0.2
)


@dataclass
class ConnectionRig:
    """The SSH server, network and agent listener that a link needs."""

    root: Path
    box: SshTestHost
    wire: CuttableProxy
    listener: AgentListener
    links: list[SshLink] = field(default_factory=list)
    states: list[LinkState] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"anygpu-{self.listener.url.rpartition(':')[2]:0>32}-1"

    @property
    def directory(self) -> Path:
        return self.box.home / ".anygpu" / "attempts" / self.name

    @property
    def agents(self) -> Path:
        return self.box.home / ".anygpu" / "agent"

    def connector(self, **timing: Any) -> SshConnector:
        return SshConnector(HostKeyStore(self.root / "pins"), SshTiming(**{**vars_of(QUICK), **timing}))

    def launch(self) -> LaunchRequest:
        return LaunchRequest(
            name=self.name, job_id="", attempt=1, ticket=self.name, agent_url="", resources=Resources()
        )

    def link(self, *, again: bool = False, login: dict[str, Any] | None = None, **how: Any) -> SshLink:
        async def found() -> SshLogin:
            return self.box.login(machine="box", **{"port": self.wire.port, **(login or {})})

        made = SshLink(
            found,
            reattach_request(self.name) if again else self.launch(),
            connector=how.pop("connector", None) or self.connector(),
            agent_target=("127.0.0.1", int(self.listener.url.rpartition(":")[2])),
            on_change=lambda: self.states.append(made.state),
            **how,
        )
        self.links.append(made)
        made.start()
        return made

    async def settled(self, link: SshLink) -> LinkState:
        async with asyncio.timeout(60):
            return await link.wait_ready()


def vars_of(timing: SshTiming) -> dict[str, Any]:
    return {name: getattr(timing, name) for name in SshTiming.__slots__}


async def eventually(holds: Callable[[], object], within_s: float = 60) -> None:
    end = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < end, "it did not come true in time"
        await asyncio.sleep(0.01)
