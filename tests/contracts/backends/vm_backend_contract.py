"""A provider's backend on the simulator: real SSH, real agents, a tunnel to a real listener."""

from collections.abc import AsyncIterator
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest

from anygpu.backends.ssh.connection import SshTiming
from anygpu.backends.ssh.keys import HostKeyStore
from anygpu.backends.vm.backend import VmBackend
from anygpu.backends.vm.options import VmTiming
from anygpu.cloudsim import CloudSim, CloudTiming, SimOptions
from anygpu.testing.contracts.backend import BackendContract
from anygpu.testing.servers.agent_listener import AgentListener

QUICK = VmTiming(
    poll_fast_s=0.05, host_keys_timeout_s=1, ssh=SshTiming(tries=50, retry_interval_s=0.1, connect_s=5)
)
LAG_S = 0.1


class RentedPlace:
    def __init__(self, sim: CloudSim, listener: AgentListener, backend: VmBackend) -> None:
        self.sim, self.listener, self.backend = sim, listener, backend
        self.agent_url = listener.url

    def count_agents(self) -> int:
        return len(self.listener.claims)


class RentedBackendContract(BackendContract):
    """The contract of every backend, for a provider of machines."""

    module: ClassVar[ModuleType]
    told: ClassVar[dict[str, Any]] = {}

    @pytest.fixture
    async def place(self, tmp_path: Path) -> AsyncIterator[RentedPlace]:
        kind = self.module.__name__.rpartition(".")[2].rstrip("_")
        with AgentListener({"shell": "sleep 1000"}) as listener:
            async with CloudSim(SimOptions(timing=CloudTiming(boot_s=0.2, ending_s=0.1))) as sim:
                known = {"endpoint": sim.url(kind), "ssh_port": sim.options.ssh_port, "unattended": True}
                options = self.module.Options(api_key=f"sim-{kind}-key", **known, **self.told)
                provider = await self.module.connect(options)
                provider.listing_lag_s = LAG_S
                backend = VmBackend(
                    kind,
                    provider,
                    options,
                    secret=b"one server's secret",
                    agent_target=("127.0.0.1", int(listener.url.rpartition(":")[2])),
                    pins=HostKeyStore(tmp_path / "pins"),
                    on_change=lambda name: None,
                    timing=QUICK,
                )
                yield RentedPlace(sim, listener, backend)
                await backend.close()
                assert not [
                    address for address in sim.cloud.addresses.ever_allocated() if not address.released_at_ms
                ]
