"""A simulated control process: the real `AgentService`, `Jobs` and `Supervisor`, with stores that can fail."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from anygpu.backends.contract import Backend
from anygpu.control.agents.service import AgentService
from anygpu.control.agents.tickets import Tickets
from anygpu.control.build import ControlServices, assemble_supervisor
from anygpu.control.jobs import Jobs
from anygpu.control.policy import ControlPolicy
from anygpu.control.schedule.compare import OfferComparer, no_analysis
from anygpu.control.supervisor import Supervisor
from anygpu.control.term import PeriodicTask
from anygpu.server.relay.task import RelayTask
from anygpu.store.blobs.checkpoints import Checkpoints
from anygpu.store.blobs.contract import Blobs
from anygpu.store.blobs.snapshots import SnapshotLimits, Snapshots
from anygpu.store.blobs.uploads import Plans, Uploads
from anygpu.store.journal import Journal
from anygpu.store.reports import Reports
from anygpu.testing.simulation.crashes import ProcessLife, crashable
from anygpu.testing.simulation.faults import Fault, FaultInjector
from anygpu.testing.simulation.providers.backend import SimBackend
from anygpu.testing.simulation.relay import SimRelay
from anygpu.testing.simulation.virtual_time import SeededRandomness, SimWake, VirtualClock, VirtualLoop

SECRET = b"simulated"


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedServices:
    """The stores, backends and clock that all control processes of a history use. They survive crashes."""

    loop: VirtualLoop
    clock: VirtualClock
    faults: FaultInjector
    journal: Callable[[str], Journal]
    reports: Callable[[], Reports]
    blobs: Blobs
    backends: Mapping[str, SimBackend]
    relay: SimRelay
    policy: ControlPolicy
    seed: str
    report: Callable[[str, str, Exception], None]


class ControlProcess:
    """One run of a control process (API and supervisor), from its start to its crash."""

    def __init__(self, shared: SharedServices, life: ProcessLife) -> None:
        self.life = life
        self.name = life.name
        self._shared = shared
        self.journal = crashable(
            shared.journal(life.name), life, submit="write", transact="write", acquire="write", live="read"
        )
        self._reports = crashable(shared.reports(), life, ingest="write", record_heartbeat="write")
        self._blobs = crashable(shared.blobs, life, put="write", move="write", delete="write", sign="call")
        self._backends: dict[str, Backend] = {
            name: crashable(backend, life, **backend.call_kinds) for name, backend in shared.backends.items()
        }
        self._relay = crashable(
            shared.relay, life, open="act", versions="call", write="act", remove="act", mailboxes="call"
        )
        for name, backend in shared.backends.items():
            if backend.relay is not None:
                vars(self._backends[name])["relay"] = self._relay
        self._clock = crashable(shared.clock, life, sleep="call")
        self._randomness = SeededRandomness(f"{shared.seed}:{life.name}")
        self._wake = _new_wake(shared, life)
        self._tickets = Tickets(SECRET)
        self._checkpoints = Checkpoints(self._blobs)
        self.jobs = Jobs(
            self.journal, self._reports, self._checkpoints, self._clock, self._randomness, self._wake
        )
        self.agent_service = self._new_agent_service()

    def start(self) -> None:
        self._shared.loop.create_task(self._new_supervisor().run(), name=self.name)

    def _new_agent_service(self) -> AgentService:
        uploads = Uploads(self._blobs)
        return AgentService(
            self.journal,
            self._reports,
            self._checkpoints,
            uploads,
            Snapshots(self._blobs, uploads, SnapshotLimits(max_bytes=2**30, max_files=1000)),
            _NoSecrets(),
            self._tickets,
            self._clock,
            self._wake,
            self._shared.policy,
        )

    def _new_supervisor(self) -> Supervisor:
        services = ControlServices(
            journal=self.journal,
            reports=self._reports,
            checkpoints=self._checkpoints,
            backends=self._backends,
            comparer=OfferComparer(no_analysis, Plans(self._blobs), self._clock),
            tickets=self._tickets,
            clock=self._clock,
            randomness=self._randomness,
            wake=self._wake,
            policy=self._shared.policy,
            agent_url=lambda: "sim://agents",
            report=self._report,
            further_tasks=self._relay_tasks,
        )
        return assemble_supervisor(services, self.name)

    def _relay_tasks(self) -> Sequence[PeriodicTask]:
        if not any(backend.relay is not None for backend in self._shared.backends.values()):
            return []
        handle = self._shared.relay.handler(self)
        return [RelayTask(self._backends, self.journal, handle, self._clock, self._report)]

    def _report(self, what: str, error: Exception) -> None:
        self._shared.report(self.name, what, error)


class _NoSecrets:
    async def resolve(self, organisation: str, project: str, names: Mapping[str, str]) -> Mapping[str, str]:
        return {}


def _new_wake(shared: SharedServices, life: ProcessLife) -> SimWake:
    """Return the wake-up signal of a process. Some wake-ups are lost, and a dead process receives none."""
    wake = _LossyWake(shared.loop)
    wake.faults = shared.faults
    gated: Any = crashable(wake, life, wait="call")
    return gated  # type: ignore[no-any-return]


class _LossyWake(SimWake):
    faults: FaultInjector

    def set(self, job_id: str) -> None:
        if not job_id or not self.faults.occurs(Fault.WAKE_LOST):
            super().set(job_id)
