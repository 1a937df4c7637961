"""Builds a simulated world from a scenario and lets it run until it has come to rest."""

import asyncio
import hashlib
from collections.abc import Callable
from typing import Literal

from anygpu.backends.contract import Launch
from anygpu.errors import AnygpuError, Conflict, Internal
from anygpu.events.types import AttemptLaunching, CheckpointSaved
from anygpu.store.evidence import Evidence
from anygpu.store.journal import Journal
from anygpu.testing.faults import Fault, Faults
from anygpu.testing.memory import MemoryEvidence, MemoryJournal
from anygpu.testing.mortal import Life
from anygpu.testing.network import Network
from anygpu.testing.process import ControlProcess, Surroundings
from anygpu.testing.provider import Machine, SimProvider
from anygpu.testing.scenario import SETTLE_S, Scenario
from anygpu.testing.sim_agent import SimAgent
from anygpu.testing.sim_backend import SimBox, SimCloud
from anygpu.testing.sim_blobs import SimBlobs
from anygpu.testing.sim_books import Tariff
from anygpu.testing.sim_client import Client, Follower
from anygpu.testing.sim_machine import Habitat
from anygpu.testing.virtual import SeededChance, VirtualClock, VirtualLoop
from anygpu.testing.witness import Commit, Witness

Store = Literal["memory", "sql"]
LOOK_EVERY_S = 10.0
AFTERGLOW_S = 90.0  # late requests and sleeping agents still have their say after everything has ended


class World:
    """Stores, providers, processes, agents and people of one history."""

    def __init__(self, scenario: Scenario, loop: VirtualLoop, store: Store = "memory") -> None:
        self.scenario = scenario
        self.loop = loop
        self.lines: list[str] = []
        self.problems: list[str] = loop.problems
        self.clock = VirtualClock(loop)
        self.faults = Faults(
            f"faults:{scenario.seed}", scenario.rates, scenario.faults_until, loop.time, self.trace
        )
        self._steady = Faults(f"steady:{scenario.seed}", {}, 0.0, loop.time, self.trace)
        self.witness = Witness(loop, self.trace, self._committed)
        self.blobs = SimBlobs(self.clock.wall_ms)
        self.rotted: dict[str, float] = {}  # manifests of checkpoints that were damaged at rest, and when
        self.resumed_damaged: set[str] = (
            set()
        )  # attempts whose checkpoint was damaged as their intent was written
        self._open_stores(store)
        self.network = Network(loop, self.faults, self._alive, self.problems.append)
        self.habitat = self._habitat()
        self.providers = [self._provider(n) for n in range(len(scenario.places))]
        self.processes: list[ControlProcess] = []
        self.clients = [Client(asked, self.network, loop) for asked in scenario.jobs]
        self.follower = Follower(self.network)
        self._around = self._surroundings()

    # -- the story ---------------------------------------------------------------------------------------------

    async def run(self) -> None:
        if self.scenario.processes > 1:
            self.faults.note(Fault.TWO_PROCESSES)
        for slot in range(self.scenario.processes):
            self._start(slot, 1)
        for story in (*(client.run() for client in self.clients), self._disturb()):
            self.loop.create_task(story)
        following = self.loop.create_task(self.follower.run())
        await self._come_to_rest()
        following.cancel()
        while await self.follower.catch_up(most=1000):
            pass

    async def _come_to_rest(self) -> None:
        until = self._last_submission() + self.scenario.faults_until + SETTLE_S
        while self.loop.time() < until:
            await asyncio.sleep(LOOK_EVERY_S)
            if self._quiet():
                await asyncio.sleep(AFTERGLOW_S)
                if self._quiet():
                    return

    def _quiet(self) -> bool:
        if any(p.late or p.active() or p.left_behind() for p in self.providers):
            return False
        ended = all(view.terminal for view in self.witness.views.values())
        return ended and all(client.done for client in self.clients)

    def _last_submission(self) -> float:
        return max((asked.at for asked in self.scenario.jobs), default=0.0)

    async def _disturb(self) -> None:
        """Wall clocks are set, forwards and back; prices go up and down."""
        while self.faults.active:
            await asyncio.sleep(5)
            for tariff in (provider.tariff for provider in self.providers if provider.tariff.price):
                if self.faults.strikes(Fault.PRICE_CHANGED):
                    tariff.change(self.faults.between(0.7, 1.3))
            if self.faults.strikes(Fault.CLOCK_JUMPED):
                self.clock.jumped_ms += round(self.faults.between(-7200, 7200) * 1000)

    def _start(self, slot: int, incarnation: int) -> None:
        def restart() -> None:
            self.trace(f"{life.name} died")
            self.loop.call_later(self.faults.between(1, 40), self._start, slot, incarnation + 1)

        crash = self.scenario.crash if (slot, incarnation) == (0, 1) else None
        name = f"p{slot}.{incarnation}"
        life = Life(name, self.loop, self.faults, self.scenario.latency_s, crash, restart)
        process = ControlProcess(self._around, life)
        self.processes.append(process)
        process.start()

    # -- what happens ------------------------------------------------------------------------------------------

    def trace(self, line: str) -> None:
        self.lines.append(f"{self.loop.time():.4f} {line}")

    def trace_hash(self) -> str:
        return hashlib.sha256("\n".join(self.lines).encode()).hexdigest()[:16]

    def _alive(self) -> list[ControlProcess]:
        return [process for process in self.processes if process.life.alive]

    def _committed(self, commit: Commit) -> None:
        event = commit.recorded.event
        if isinstance(event, CheckpointSaved) and self.faults.strikes(Fault.CHECKPOINT_ROTTED):
            delay_s = self.faults.between(0, 30)
            self.loop.call_later(delay_s, self._rot, event.checkpoint.manifest)
        resume = event.resume if isinstance(event, AttemptLaunching) else None
        if isinstance(event, AttemptLaunching) and resume and not self.blobs.holds(resume.manifest):
            self.resumed_damaged.add(event.name)

    def _rot(self, manifest: str) -> None:
        self.rotted[manifest] = self.loop.time()
        self.blobs.damage(manifest, self.faults.random)

    def _report(self, process: str, what: str, error: Exception) -> None:
        self.trace(f"{process} reports {what}: {type(error).__name__}")
        expected = isinstance(error, AnygpuError | TimeoutError) and not isinstance(
            error, Conflict | Internal
        )
        if not expected:
            self.problems.append(f"{process}: {what}: {error!r}")

    # -- building ----------------------------------------------------------------------------------------------

    def _open_stores(self, store: Store) -> None:
        self.new_journal: Callable[[], Journal]
        self.new_evidence: Callable[[], Evidence]
        if store == "sql":
            self.new_journal, self.new_evidence = _sql(self.clock)
            return
        journal, evidence = MemoryJournal(now_s=self.loop.time), MemoryEvidence()
        self.new_journal, self.new_evidence = lambda: journal, lambda: evidence

    def _surroundings(self) -> Surroundings:
        def journal(process: str) -> Journal:
            return self.witness.watched(self.new_journal(), process)

        backends = {
            place.name: (SimCloud if place.price else SimBox)(
                provider,
                dead=place.dead,
                interruptible=place.interruptible,
                lease_s=place.lease_s,
                opens_at=place.opens_at,
            )
            for place, provider in zip(self.scenario.places, self.providers, strict=True)
        }
        return Surroundings(
            loop=self.loop,
            clock=self.clock,
            faults=self.faults,
            journal=journal,
            evidence=self.new_evidence,
            blobs=self.blobs,
            backends=backends,
            policy=self.scenario.policy,
            seed=self.scenario.seed,
            report=self._report,
        )

    def _habitat(self) -> Habitat:
        return Habitat(
            loop=self.loop,
            faults=self.faults,
            chance=SeededChance(f"agents:{self.scenario.seed}"),
            network=self.network,
            blobs=self.blobs,
            trace=self.trace,
            problem=self.problems.append,
        )

    def _provider(self, number: int) -> SimProvider:
        place = self.scenario.places[number]

        def guest(machine: Machine, launch: Launch) -> SimAgent:
            return SimAgent(machine, launch, self.habitat, provider)

        provider = SimProvider(
            place.name,
            self.loop,
            self._steady if place.steady else self.faults,
            self.trace,
            guest,
            Tariff(place.price, place.step_s, place.minimum_s),
            capacity=place.capacity,
            idempotent=place.idempotent,
            quota=place.quota,
            max_run_s=place.max_run_s,
            addresses_too=bool(place.price),
        )
        return provider


def _sql(clock: VirtualClock) -> tuple[Callable[[], Journal], Callable[[], Evidence]]:
    """The real SQL on SQLite in memory. Each process has a journal of its own, with its own cache of views."""
    from anygpu.store.sql.evidence import SqlEvidence
    from anygpu.store.sql.inline import InlineDatabase
    from anygpu.store.sql.journal import SqlJournal

    # A database's own clock: a server's wall clock that jumps must not end a lease.
    database = InlineDatabase(now_ms=lambda: round(clock.monotonic() * 1000))
    return lambda: SqlJournal(database), lambda: SqlEvidence(database)
