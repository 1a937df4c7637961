"""Start and stop the cloud simulator, inject faults, and read its state and its bills."""

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from anygpu.cloudsim import control_api
from anygpu.cloudsim.apis import load_apis
from anygpu.cloudsim.billing import BillingEntry
from anygpu.cloudsim.clock import SimClock
from anygpu.cloudsim.cloud import CapacityLimits, Cloud
from anygpu.cloudsim.faults import FaultKind, InjectedFault
from anygpu.cloudsim.http_listener import LoopbackListener, ResponseDropper, route_by_prefix
from anygpu.cloudsim.instance import Instance, MachineRuntime
from anygpu.cloudsim.lifecycle import CloudTiming
from anygpu.cloudsim.machine.directory import METADATA_PORT, MachineHost
from anygpu.cloudsim.machine.metadata import SimMetadataService
from anygpu.cloudsim.machine.network import AddressPool
from anygpu.cloudsim.machine.processes import ProcessReaper
from anygpu.cloudsim.machine.real import RealMachine
from anygpu.cloudsim.market import CapacityTrace, SimSpotMarket

HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class SimOptions:
    """Options of the simulator. With `speed` 10, spot capacity and prices change ten times as fast."""

    port: int = 0
    ssh_port: int = 2222
    seed: int | None = None
    traces: Sequence[CapacityTrace] = ()
    speed: float = 1
    timing: CloudTiming = field(default_factory=CloudTiming)
    limits: CapacityLimits = field(default_factory=CapacityLimits)
    directory: Path | None = None  # None: a temporary directory
    sshd: str = ""  # path of OpenSSH's sshd; empty: the built-in server, which accepts any user name


class CloudSim:
    """A running simulator. In `async with CloudSim() as sim:`, EC2's API is served at `sim.url("ec2")`."""

    def __init__(
        self,
        options: SimOptions | None = None,
        *,
        make_machine: Callable[[Instance], MachineRuntime] | None = None,
    ) -> None:
        self.options = options or SimOptions()
        self._make_machine = make_machine or self._new_machine
        self._reaper = ProcessReaper()
        self._address_pool = AddressPool()
        self.directory = Path()
        self.port = 0

    async def __aenter__(self) -> "CloudSim":
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        self.directory = self.options.directory or Path(tempfile.mkdtemp(prefix="anygpu-cloud-"))
        self.clock = SimClock()
        self.cloud = self._new_cloud()
        self.apis = load_apis()
        self._host = self._prepare_host()
        self._metadata = SimMetadataService(self.cloud)
        self._metadata_listener = LoopbackListener(self._metadata.app())
        apps = {name: dialect.app(self.cloud) for name, dialect in self.apis.items()}
        apps["sim"] = control_api.app(self.cloud)
        self._listener = LoopbackListener(
            ResponseDropper(
                route_by_prefix(apps), self.cloud, lambda scope: self._listener.drop_connection(scope)
            )
        )
        self.port = await self._listener.listen(HOST, self.options.port)
        self.clock.start()

    async def stop(self) -> None:
        """Halt all machines, and return when all their processes have ended."""
        await self._listener.close()
        await self.cloud.lifecycle.stop()
        await self._metadata_listener.close()
        await self.clock.stop()
        self._address_pool.close()
        if self.options.directory is None:
            await asyncio.to_thread(shutil.rmtree, self.directory, ignore_errors=True)

    def url(self, vendor: str = "") -> str:
        """Return the URL of this vendor's API."""
        return f"http://{HOST}:{self.port}/{vendor}".rstrip("/")

    # Faults

    def inject_fault(self, kind: str, **where: object) -> str:
        """Inject a fault and return its id, for example `inject_fault("no_capacity", vendor="ec2", times=1)`.

        The other arguments are the fields of `InjectedFault`.
        """
        return self.cloud.faults.add(InjectedFault(kind=FaultKind(kind), **where))  # type: ignore[arg-type]

    def clear_faults(self, fault_id: str = "") -> None:
        self.cloud.faults.clear(fault_id)

    def preempt(self, id: str, notice_s: float | None = None) -> None:
        self.cloud.preempt(id, notice_s)

    def disconnect(self, id: str, for_s: float | None = None) -> None:
        self.cloud.lifecycle.disconnect(self.instances[id], for_s)

    def reconnect(self, id: str) -> None:
        self.cloud.lifecycle.reconnect(self.instances[id])

    async def refuse_ssh(self, id: str, for_s: float | None = None) -> None:
        await self.cloud.lifecycle.refuse_ssh(self.instances[id], for_s)

    def fill_disk(self, id: str, file_bytes: int | None = 0) -> None:
        self.cloud.lifecycle.fill_disk(self.instances[id], file_bytes)

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)

    # State

    @property
    def instances(self) -> Mapping[str, Instance]:
        return self.cloud.instances

    def live_instances(self) -> list[Instance]:
        return [instance for instance in self.instances.values() if not instance.state.is_ended]

    def billing_entries(self, vendor: str = "") -> list[BillingEntry]:
        return [entry for entry in self.cloud.billing_entries() if vendor in ("", entry.vendor)]

    def _prepare_host(self) -> MachineHost:
        host = MachineHost(
            directory=self.directory,
            ssh_port=self.options.ssh_port,
        )
        host.prepare()
        return host

    def _new_machine(self, instance: Instance) -> MachineRuntime:
        return RealMachine(
            instance,
            self._host,
            self._reaper,
            self.clock,
            open_metadata=self._open_metadata,
            close_metadata=self._metadata_listener.stop_listening,
            openssh=self.options.sshd,
        )

    async def _open_metadata(self, instance: Instance) -> None:
        self._metadata.register(instance)
        await self._metadata_listener.listen(instance.internal_ip, METADATA_PORT)

    def _new_cloud(self) -> Cloud:
        options = self.options
        market = SimSpotMarket(
            seed=options.seed,
            traces=options.traces,
            speed=options.speed,
            start_s=self.clock.now_s(),
        )
        return Cloud(
            self.clock,
            self._make_machine,
            self._address_pool.take,
            market=market,
            timing=options.timing,
            limits=options.limits,
            seed=options.seed,
            ssh_port=options.ssh_port,
        )
