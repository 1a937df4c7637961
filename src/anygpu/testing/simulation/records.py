"""Records that the invariants are checked against, independent of the control loop.

Agents and clients record which of their requests were acknowledged. `CommitRecorder` records each commit with
the process that wrote it and the process that held the control lease (the leader).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from anygpu.events.fold import Recorded
from anygpu.events.types import (
    AttemptLaunched,
    AttemptLaunching,
    AttemptLost,
    AttemptQueued,
    AttemptReleased,
    AttemptStranded,
    HoldStarted,
    JobCancelled,
    JobCompleted,
    JobFailed,
    JobPlanned,
    JobWaited,
    MachineStarted,
    MeterDiffered,
    OrphanEnded,
    RecoveryStarted,
    StopRequested,
)
from anygpu.events.view import JobView
from anygpu.store.journal import Guard, Journal, TransactionResult
from anygpu.store.reports import MetricPoint, ReportBatch
from anygpu.testing.simulation.virtual_time import VirtualLoop


@dataclass(frozen=True, slots=True)
class SimFrame:
    """One frame (numbered record) of an agent's spool."""

    seq: int
    log: bytes = b""
    point: MetricPoint | None = None
    phase: str = ""
    progress: Mapping[str, Any] | None = None


@dataclass(slots=True)
class AgentRecord:
    """The actions of one agent, and which of them were acknowledged."""

    name: str  # name of the attempt
    machine: str
    job_id: str = ""
    attempt: int = 0
    node: int = 0  # of an attempt on several machines
    nodes: int = 1
    claimed_at: float | None = None
    resume: Mapping[str, Any] | None = None
    restored_step: int | None = None  # read from the restored bytes, not from the assignment
    began_after: int | None = None  # the step that the script started from: 0 for the beginning
    frames: list[SimFrame] = field(default_factory=list)
    acked: int = 0
    went_back_to: int | None = None  # set if the server requested frames that it had already acknowledged
    trained_from: float | None = None
    trained_until: float | None = None
    was_paused: bool = False
    answered_at: list[float] = field(default_factory=list)  # times of all responses
    saved: list[tuple[int, str]] = field(default_factory=list)  # acknowledged checkpoints: step, id
    end_acked: str | None = None
    succeeded: bool = False  # the script ended without an error
    ready_at: float | None = None  # when the agent said that its node is ready
    failed_at: float | None = None  # when the server acknowledged the failure of the node's processes

    @property
    def log(self) -> bytes:
        return b"".join(frame.log for frame in self.frames)

    @property
    def points(self) -> list[MetricPoint]:
        return [frame.point for frame in self.frames if frame.point is not None]

    def batch(self, *, skip: int = 0, most: int = 20) -> ReportBatch:
        frames = self.frames[self.acked + skip : self.acked + most]
        return ReportBatch(
            first=frames[0].seq,
            last=frames[-1].seq,
            logs=[(f.seq, f.log) for f in frames if f.log],
            points=[(f.seq, [f.point]) for f in frames if f.point is not None],
            phases=[(f.seq, f.phase) for f in frames if f.phase],
            progress=next((f.progress for f in reversed(frames) if f.progress), None),
        )


@dataclass(slots=True)
class ClientRecord:
    """The acknowledgements of one client's requests."""

    key: str | None
    job_ids: list[str] = field(default_factory=list)  # job id of every acknowledged submission
    submitted_at: float = 0.0
    cancel_acked: bool = False


# Events that only the leading control process may write.
CONTROL_FACTS = (
    JobPlanned,
    JobWaited,
    AttemptLaunching,
    AttemptLaunched,
    AttemptLost,
    AttemptReleased,
    AttemptQueued,
    AttemptStranded,
    MachineStarted,
    HoldStarted,
    RecoveryStarted,
    StopRequested,
    OrphanEnded,
    MeterDiffered,
    JobCompleted,
    JobFailed,
    JobCancelled,
)


@dataclass(frozen=True, slots=True)
class Commit:
    """A committed event, with the time, the process that wrote it, and the process that held the control lease then."""

    at: float
    process: str
    leader: str
    recorded: Recorded


@dataclass(slots=True)
class CommitRecorder:
    loop: VirtualLoop
    trace: Callable[[str], None]
    on_commit: Callable[[Commit], None]
    commits: list[Commit] = field(default_factory=list)
    views: dict[str, JobView] = field(default_factory=dict)
    decreased_ledgers: list[str] = field(default_factory=list)  # jobs whose ledger decreased
    leader: str = ""

    def wrap(self, journal: Journal, process: str) -> Journal:
        return cast(Journal, _RecordingJournal(journal, process, self))

    def record(self, process: str, written: TransactionResult) -> None:
        before = self.views.get(written.view.id)
        if before is not None and written.view.cost_microusd < before.cost_microusd:
            self.decreased_ledgers.append(written.view.id)
        self.views[written.view.id] = written.view
        for recorded in written.recorded:
            commit = Commit(self.loop.time(), process, self.leader, recorded)
            self.commits.append(commit)
            self.trace(
                f"{process} wrote {recorded.position} {type(recorded.event).__name__} {recorded.job_id}"
            )
            self.on_commit(commit)

    def record_leader(self, guard: Guard | None) -> None:
        if guard is not None and guard.holder != self.leader:
            self.leader = guard.holder
            self.trace(f"{guard.holder} leads")


class _RecordingJournal:
    """A journal that reports its writes to a recorder, in the order of the commits.

    The wrapped stores use no threads and commit before they return, so the recorded order is that of the
    commits.
    """

    def __init__(self, journal: Journal, process: str, witness: CommitRecorder) -> None:
        self._journal, self._process, self._recorder = journal, process, witness
        self.view, self.find, self.live = journal.view, journal.find, journal.live
        self.events, self.head, self.usages = journal.events, journal.head, journal.usages
        self.job_with_key = journal.job_with_key

    async def submit(self, *args: Any, **options: Any) -> TransactionResult:
        return self._record(await self._journal.submit(*args, **options))

    async def transact(self, *args: Any, **options: Any) -> TransactionResult:
        return self._record(await self._journal.transact(*args, **options))

    async def acquire(self, name: str, holder: str, *, ttl_s: float) -> Guard | None:
        guard = await self._journal.acquire(name, holder, ttl_s=ttl_s)
        self._recorder.record_leader(guard)
        return guard

    def _record(self, written: TransactionResult) -> TransactionResult:
        self._recorder.record(self._process, written)
        return written
