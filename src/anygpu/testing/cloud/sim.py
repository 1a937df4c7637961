"""The simulator as a program or a test holds it: start it, ask for faults, read its books, stop it."""

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from anygpu.testing.cloud import control
from anygpu.testing.cloud.books import Entry
from anygpu.testing.cloud.clock import SimClock
from anygpu.testing.cloud.cloud import Cloud, Limits
from anygpu.testing.cloud.dialects import every
from anygpu.testing.cloud.door import Door
from anygpu.testing.cloud.edge import LosesAnswers, routed
from anygpu.testing.cloud.faults import Fault, Kind
from anygpu.testing.cloud.instance import Body, Instance
from anygpu.testing.cloud.lifecycle import Timing
from anygpu.testing.cloud.machine import RealMachine
from anygpu.testing.cloud.market import Market, Trace
from anygpu.testing.cloud.metadata import Metadata
from anygpu.testing.cloud.network import AddressPool
from anygpu.testing.cloud.place import Site
from anygpu.testing.cloud.processes import Reaper

HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class SimOptions:
    """How the simulator behaves. `speed` is that of the market alone: traces and prices."""

    port: int = 0
    ssh_port: int = 2222
    metadata_port: int = 1338
    seed: int | None = None
    traces: Sequence[Trace] = ()
    named_traces: Mapping[str, Trace] = field(default_factory=dict)  # by type@zone, type or zone
    speed: float = 1
    timing: Timing = field(default_factory=Timing)
    limits: Limits = field(default_factory=Limits)
    directory: Path | None = None  # None: a temporary one, removed at the end
    machine_env: Mapping[str, str] = field(default_factory=dict)
    sshd: str = ""  # path of OpenSSH's sshd; empty: the server in this process, which lets in any user name


class CloudSim:
    """`async with CloudSim() as sim:` rents machines at `sim.url("ec2")`."""

    def __init__(
        self, options: SimOptions | None = None, *, make_body: Callable[[Instance], Body] | None = None
    ) -> None:
        self.options = options or SimOptions()
        self._make_body = make_body or self._real_machine
        self._reaper = Reaper()
        self._pool = AddressPool()
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
        self.cloud = self._cloud()
        self.dialects = every()
        self._site = self._make_site()
        self._metadata = Metadata(self.cloud)
        self._metadata_door = Door(self._metadata.app())
        apps = {name: dialect.app(self.cloud) for name, dialect in self.dialects.items()}
        apps["sim"] = control.app(self.cloud)
        self._door = Door(LosesAnswers(routed(apps), self.cloud, lambda scope: self._door.cut(scope)))
        self.port = await self._door.open(HOST, self.options.port)
        self.clock.start()

    async def stop(self) -> None:
        """Every machine is halted and every process on them is gone when this returns."""
        await self._door.close()
        await self.cloud.lifecycle.stop()
        await self._metadata_door.close()
        await self.clock.stop()
        self._pool.close()
        if self.options.directory is None:
            await asyncio.to_thread(shutil.rmtree, self.directory, ignore_errors=True)

    def url(self, vendor: str = "") -> str:
        """The endpoint to give to a client of this vendor."""
        return f"http://{HOST}:{self.port}/{vendor}".rstrip("/")

    # What goes wrong

    def fault(self, kind: str, **where: object) -> str:
        """`fault("no_capacity", vendor="ec2", times=1)`; the fields are those of `Fault`. Returns its id."""
        return self.cloud.faults.add(Fault(kind=Kind(kind), **where))  # type: ignore[arg-type]

    def lift(self, fault_id: str = "") -> None:
        self.cloud.faults.lift(fault_id)

    def preempt(self, id: str, notice_s: float | None = None) -> None:
        self.cloud.preempt(id, notice_s)

    def cut(self, id: str, for_s: float | None = None) -> None:
        self.cloud.lifecycle.cut(self.instances[id], for_s)

    def reconnect(self, id: str) -> None:
        self.cloud.lifecycle.reconnect(self.instances[id])

    async def refuse_ssh(self, id: str, for_s: float | None = None) -> None:
        await self.cloud.lifecycle.refuse_ssh(self.instances[id], for_s)

    def fill_disk(self, id: str, file_bytes: int | None = 0) -> None:
        self.cloud.lifecycle.fill_disk(self.instances[id], file_bytes)

    def perturb_meter(self, factor: float) -> None:
        self.cloud.books.factor = factor

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)

    # What is true

    @property
    def instances(self) -> Mapping[str, Instance]:
        return self.cloud.instances

    def alive(self) -> list[Instance]:
        return [instance for instance in self.instances.values() if not instance.state.over]

    def books(self, vendor: str = "") -> list[Entry]:
        return [entry for entry in self.cloud.entries() if vendor in ("", entry.vendor)]

    def _make_site(self) -> Site:
        site = Site(
            directory=self.directory,
            ssh_port=self.options.ssh_port,
            metadata_port=self.options.metadata_port,
            env=self.options.machine_env,
        )
        site.prepare()
        return site

    def _real_machine(self, instance: Instance) -> Body:
        return RealMachine(
            instance,
            self._site,
            self._reaper,
            self.clock,
            open_metadata=self._open_metadata,
            shut_metadata=self._metadata_door.shut,
            openssh=self.options.sshd,
        )

    async def _open_metadata(self, instance: Instance) -> None:
        self._metadata.know(instance)
        await self._metadata_door.open(instance.inside_ip, self.options.metadata_port)

    def _cloud(self) -> Cloud:
        options = self.options
        market = Market(
            seed=options.seed,
            traces=options.traces,
            named=options.named_traces,
            speed=options.speed,
            start_s=self.clock.now_s(),
        )
        return Cloud(
            self.clock,
            self._make_body,
            self._pool.take,
            market=market,
            timing=options.timing,
            limits=options.limits,
            seed=options.seed,
            ssh_port=options.ssh_port,
        )
