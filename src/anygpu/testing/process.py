"""A simulated control process: the real desk, jobs and supervisor, on seams that can die."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from anygpu.backends.contract import Backend
from anygpu.control.comparing import Comparing, nothing_read
from anygpu.control.desk import Desk
from anygpu.control.jobs import Jobs
from anygpu.control.keeper import Keeper
from anygpu.control.placing import Placing
from anygpu.control.policy import Policy
from anygpu.control.supervisor import Supervisor
from anygpu.control.sweep import Sweeper
from anygpu.control.tickets import Tickets
from anygpu.store.blobs import Blobs
from anygpu.store.checkpoints import Checkpoints
from anygpu.store.evidence import Evidence
from anygpu.store.journal import Journal
from anygpu.store.plans import Plans
from anygpu.store.uploads import Uploads
from anygpu.testing.faults import Fault, Faults
from anygpu.testing.mortal import Life, mortal
from anygpu.testing.virtual import SeededChance, SimWake, VirtualClock, VirtualLoop

SECRET = b"simulated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What outlives every process."""

    loop: VirtualLoop
    clock: VirtualClock
    faults: Faults
    journal: Callable[[str], Journal]
    evidence: Callable[[], Evidence]
    blobs: Blobs
    backends: Mapping[str, Backend]
    policy: Policy
    seed: str
    report: Callable[[str, str, Exception], None]


class ControlProcess:
    """API and supervisor in one process, from its start to its death."""

    def __init__(self, around: Surroundings, life: Life) -> None:
        self.life = life
        self.name = life.name
        self._around = around
        self.journal = mortal(
            around.journal(life.name), life, submit="write", transact="write", acquire="write", live="read"
        )
        self._evidence = mortal(around.evidence(), life, ingest="write", beat="write")
        self._blobs = mortal(around.blobs, life, put="write", delete="write", sign="call")
        self._backends = {
            name: mortal(
                backend,
                life,
                launch="act",
                terminate="act",
                offers="call",
                probe="call",
                inventory="call",
                deliver="act",
                leftovers="call",
                remove="act",
                metered_microusd="call",
            )
            for name, backend in around.backends.items()
        }
        self._clock = mortal(around.clock, life, sleep="call")
        self._chance = SeededChance(f"{around.seed}:{life.name}")
        self._wake = _wake(around, life)
        self._tickets = Tickets(SECRET)
        self._checkpoints = Checkpoints(self._blobs)
        self.jobs = Jobs(self.journal, self._clock, self._chance, self._wake)
        self.desk = self._desk()

    def start(self) -> None:
        self._around.loop.create_task(self._supervisor().run(), name=self.name)

    def _desk(self) -> Desk:
        return Desk(
            self.journal,
            self._evidence,
            self._checkpoints,
            Uploads(self._blobs),
            _NoSecrets(),
            self._tickets,
            self._clock,
            self._wake,
            self._around.policy,
        )

    def _supervisor(self) -> Supervisor:
        policy = self._around.policy
        placing = Placing(
            self.journal,
            self._backends,
            self._checkpoints,
            Comparing(nothing_read, Plans(self._blobs), self._clock),
            self._tickets,
            self._clock,
            policy,
        )
        sweeper = Sweeper(self._backends, self._clock, policy, self._report)
        return Supervisor(
            self.journal,
            self._keeper,
            placing,
            sweeper,
            self._clock,
            self._wake,
            policy,
            self.name,
            self._report,
        )

    def _keeper(self) -> Keeper:
        return Keeper(
            self.journal,
            self._evidence,
            self._backends,
            self._tickets,
            self._clock,
            self._chance,
            self._around.policy,
            lambda: "sim://agents",
        )

    def _report(self, what: str, error: Exception) -> None:
        self._around.report(self.name, what, error)


class _NoSecrets:
    async def resolve(self, organisation: str, project: str, names: Mapping[str, str]) -> Mapping[str, str]:
        return {}


def _wake(around: Surroundings, life: Life) -> SimWake:
    """Wake-ups from inside the process; some get lost, and a dead process hears none."""
    wake = _LossyWake(around.loop)
    wake.faults = around.faults
    gated: Any = mortal(wake, life, wait="call")
    return gated  # type: ignore[no-any-return]


class _LossyWake(SimWake):
    faults: Faults

    def set(self, job_id: str) -> None:
        if not job_id or not self.faults.strikes(Fault.WAKE_LOST):
            super().set(job_id)
