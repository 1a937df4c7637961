"""Create all parts of a simulated history from its scenario, and run it until jobs and machines have ended."""

import asyncio
import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from anygpu.backends.contract import LaunchRequest
from anygpu.errors import AnygpuError, Conflict, Internal
from anygpu.events.types import AttemptLaunching, CheckpointSaved
from anygpu.store.journal import Journal
from anygpu.store.reports import Reports
from anygpu.testing.memory.journal import MemoryJournal
from anygpu.testing.memory.reports import MemoryReports
from anygpu.testing.simulation.agents.agent import SimAgent
from anygpu.testing.simulation.agents.environment import AgentEnvironment
from anygpu.testing.simulation.blobs import SimBlobs
from anygpu.testing.simulation.client import SimClient, SimFollower
from anygpu.testing.simulation.control_process import ControlProcess, SharedServices
from anygpu.testing.simulation.crashes import ProcessLife
from anygpu.testing.simulation.faults import Fault, FaultInjector
from anygpu.testing.simulation.network import SimNetwork
from anygpu.testing.simulation.providers.backend import SimBackend, SimCloudBackend, SimHostBackend
from anygpu.testing.simulation.providers.provider import SimMachine, SimProvider, SimTariff
from anygpu.testing.simulation.providers.queue_engine import SimQueueBackend, SimQueueProvider
from anygpu.testing.simulation.records import Commit, CommitRecorder
from anygpu.testing.simulation.relay import SimRelay
from anygpu.testing.simulation.scenario import SETTLE_S, Scenario, ScenarioBackend
from anygpu.testing.simulation.virtual_time import SeededRandomness, VirtualClock, VirtualLoop

if TYPE_CHECKING:
    from anygpu.testing.simulation.row_damage import RowDamager

Store = Literal["memory", "sql"]
CHECK_INTERVAL_S = 10.0
REST_S = 90.0  # late requests and paused agents may still act after everything has ended


class SimWorld:
    """The stores, providers, processes, agents and clients of one history."""

    def __init__(self, scenario: Scenario, loop: VirtualLoop, store: Store = "memory") -> None:
        self.scenario = scenario
        self.loop = loop
        self.lines: list[str] = []
        self.problems: list[str] = loop.problems
        self.clock = VirtualClock(loop)
        self.faults = FaultInjector(
            f"faults:{scenario.seed}", scenario.rates, scenario.faults_until, loop.time, self.trace
        )
        self._no_faults = FaultInjector(f"steady:{scenario.seed}", {}, 0.0, loop.time, self.trace)
        self.recorder = CommitRecorder(loop, self.trace, self._on_commit)
        self.blobs = SimBlobs(self.clock.wall_ms)
        self.damaged: dict[str, float] = {}  # when each manifest was damaged
        self.resumed_damaged: set[str] = set()  # attempts launched with a damaged checkpoint
        self.row_damager: RowDamager | None = None
        self._open_stores(store)
        self.relay = SimRelay(loop, self.faults, self.problems.append)
        self.network = SimNetwork(loop, self.faults, self._alive, self.problems.append)
        self.environment = self._new_environment()
        self.providers = [self._new_provider(n) for n in range(len(scenario.backends))]
        self.processes: list[ControlProcess] = []
        self.clients = [SimClient(job, self.network, loop) for job in scenario.jobs]
        self.follower = SimFollower(self.network)
        self._shared = self._new_shared_services()

    # -- main flow ---------------------------------------------------------------------------------------------

    async def run(self) -> None:
        if self.scenario.processes > 1:
            self.faults.record(Fault.TWO_PROCESSES)
        for slot in range(self.scenario.processes):
            self._start(slot, 1)
        for coroutine in (*(client.run() for client in self.clients), self._disturb()):
            self.loop.create_task(coroutine)
        if self.row_damager is not None:
            self.loop.create_task(self.row_damager.run(self._live_jobs))
        following = self.loop.create_task(self.follower.run())
        await self._run_until_at_rest()
        following.cancel()
        while await self.follower.catch_up(most=1000):
            pass

    async def _run_until_at_rest(self) -> None:
        until = self._last_submission() + self.scenario.faults_until + SETTLE_S
        while self.loop.time() < until:
            await asyncio.sleep(CHECK_INTERVAL_S)
            if self._is_at_rest():
                await asyncio.sleep(REST_S)
                if self._is_at_rest():
                    return

    def _is_at_rest(self) -> bool:
        if any(p.pending_launches or p.active_machines() or p.unreleased_addresses() for p in self.providers):
            return False
        if any(job_id not in self.damaged_jobs for job_id in self._live_jobs()):
            return False
        return all(client.done or self._is_damaged(client) for client in self.clients)

    @property
    def damaged_jobs(self) -> frozenset[str]:
        """Jobs with a damaged event. They need not end, but their machines must."""
        return frozenset(self.row_damager.jobs if self.row_damager is not None else ())

    def _is_damaged(self, client: SimClient) -> bool:
        return any(job_id in self.damaged_jobs for job_id in client.record.job_ids)

    def _live_jobs(self) -> list[str]:
        return [job_id for job_id, view in self.recorder.views.items() if not view.is_terminal]

    def _last_submission(self) -> float:
        return max((job.at for job in self.scenario.jobs), default=0.0)

    async def _disturb(self) -> None:
        """Change the wall clock and prices every 5 seconds, if a random fault is due."""
        while self.faults.active:
            await asyncio.sleep(5)
            for tariff in (provider.tariff for provider in self.providers if provider.tariff.price):
                if self.faults.occurs(Fault.PRICE_CHANGED):
                    tariff.change(self.faults.uniform(0.7, 1.3))
            if self.faults.occurs(Fault.CLOCK_JUMPED):
                self.clock.jumped_ms += round(self.faults.uniform(-7200, 7200) * 1000)

    def _start(self, slot: int, incarnation: int) -> None:
        def restart() -> None:
            self.trace(f"{life.name} died")
            self.loop.call_later(self.faults.uniform(1, 40), self._start, slot, incarnation + 1)

        crash = self.scenario.crash if (slot, incarnation) == (0, 1) else None
        name = f"p{slot}.{incarnation}"
        life = ProcessLife(name, self.loop, self.faults, self.scenario.latency_s, crash, restart)
        process = ControlProcess(self._shared, life)
        self.processes.append(process)
        process.start()

    # -- events ------------------------------------------------------------------------------------------------

    def trace(self, connection: str) -> None:
        self.lines.append(f"{self.loop.time():.4f} {connection}")

    def trace_hash(self) -> str:
        return hashlib.sha256("\n".join(self.lines).encode()).hexdigest()[:16]

    def _alive(self) -> list[ControlProcess]:
        return [process for process in self.processes if process.life.alive]

    def _on_commit(self, commit: Commit) -> None:
        event = commit.recorded.event
        if isinstance(event, CheckpointSaved) and self.faults.occurs(Fault.CHECKPOINT_ROTTED):
            delay_s = self.faults.uniform(0, 30)
            self.loop.call_later(delay_s, self._damage, event.checkpoint.manifest)
        resume = event.resume if isinstance(event, AttemptLaunching) else None
        if (
            isinstance(event, AttemptLaunching)
            and resume
            and not self.blobs.has_valid_checkpoint(resume.manifest)
        ):
            self.resumed_damaged.add(event.name)

    def _damage(self, manifest: str) -> None:
        self.damaged[manifest] = self.loop.time()
        self.blobs.damage(manifest, self.faults.random)

    def _report(self, process: str, what: str, error: Exception) -> None:
        self.trace(f"{process} reports {what}: {type(error).__name__}")
        expected = isinstance(error, AnygpuError | TimeoutError) and not isinstance(
            error, Conflict | Internal
        )
        if not expected:
            self.problems.append(f"{process}: {what}: {error!r}")

    # -- construction ------------------------------------------------------------------------------------------

    def _open_stores(self, store: Store) -> None:
        self.new_journal: Callable[[], Journal]
        self.new_reports: Callable[[], Reports]
        if store == "sql":
            self._open_sql_stores()
            return
        journal, reports = MemoryJournal(now_s=self.loop.time), MemoryReports()
        self.new_journal, self.new_reports = lambda: journal, lambda: reports

    def _open_sql_stores(self) -> None:
        """Open the SQL stores on SQLite in memory.

        Each control process opens its own journal object, which has its own cache of views, on the same database.
        """
        from anygpu.store.sql.engine.inline import InlineDatabase
        from anygpu.store.sql.journal import SqlJournal
        from anygpu.store.sql.report_store.reports import SqlReports
        from anygpu.testing.simulation.row_damage import RowDamager

        # The database has its own clock: a jump of a server's wall clock must not end a lease.
        database = InlineDatabase(now_ms=lambda: round(self.clock.monotonic() * 1000))
        self.new_journal, self.new_reports = lambda: SqlJournal(database), lambda: SqlReports(database)
        self.row_damager = RowDamager(database, self.scenario.seed, self.faults, self.loop.time)

    def _new_shared_services(self) -> SharedServices:
        def journal(process: str) -> Journal:
            return self.recorder.wrap(self.new_journal(), process)

        backends = {
            backend.name: _backend_class(backend)(
                provider,
                dead=backend.dead,
                interruptible=backend.interruptible,
                lease_s=backend.lease_s,
                opens_at=backend.opens_at,
                outages=backend.outages,
                max_nodes=backend.max_nodes,
                relay=self.relay if backend.relayed else None,
            )
            for backend, provider in zip(self.scenario.backends, self.providers, strict=True)
        }
        return SharedServices(
            loop=self.loop,
            clock=self.clock,
            faults=self.faults,
            journal=journal,
            reports=self.new_reports,
            blobs=self.blobs,
            backends=backends,
            relay=self.relay,
            policy=self.scenario.policy,
            seed=self.scenario.seed,
            report=self._report,
        )

    def _new_environment(self) -> AgentEnvironment:
        return AgentEnvironment(
            loop=self.loop,
            faults=self.faults,
            randomness=SeededRandomness(f"agents:{self.scenario.seed}"),
            network=self.network,
            relay=self.relay,
            blobs=self.blobs,
            trace=self.trace,
            problem=self.problems.append,
        )

    def _new_provider(self, number: int) -> SimProvider:
        backend = self.scenario.backends[number]

        def guest(machine: SimMachine, launch: LaunchRequest) -> SimAgent:
            return SimAgent(machine, launch, self.environment, provider)

        provider = (SimQueueProvider if backend.queues else SimProvider)(
            backend.name,
            self.loop,
            self._no_faults if backend.steady else self.faults,
            self.trace,
            guest,
            SimTariff(backend.price, backend.step_s, backend.minimum_s),
            capacity=backend.capacity,
            idempotent=backend.idempotent,
            quota=backend.quota,
            max_run_s=backend.max_run_s,
            has_addresses=bool(backend.price),
        )
        return provider


def _backend_class(backend: ScenarioBackend) -> type[SimBackend]:
    if backend.queues:
        return SimQueueBackend
    return SimCloudBackend if backend.price else SimHostBackend
