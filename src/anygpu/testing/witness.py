"""Sees every commit as the store does: who wrote what, when, and who led then."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

from anygpu.events.fold import Recorded
from anygpu.events.types import (
    AttemptLaunched,
    AttemptLaunching,
    AttemptLost,
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
from anygpu.store.journal import Guard, Journal, Written
from anygpu.testing.virtual import VirtualLoop

# Facts that only the leading control process may write.
CONTROL_FACTS = (
    JobPlanned,
    JobWaited,
    AttemptLaunching,
    AttemptLaunched,
    AttemptLost,
    AttemptReleased,
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
    """One event, with the virtual time at which it was written and by whom."""

    at: float
    process: str
    leader: str
    recorded: Recorded


@dataclass(slots=True)
class Witness:
    loop: VirtualLoop
    trace: Callable[[str], None]
    on_commit: Callable[[Commit], None]
    commits: list[Commit] = field(default_factory=list)
    views: dict[str, JobView] = field(default_factory=dict)
    shrunk: list[str] = field(default_factory=list)  # jobs whose ledger went down
    leader: str = ""

    def watched(self, journal: Journal, process: str) -> Journal:
        return cast(Journal, _Watched(journal, process, self))

    def saw(self, process: str, written: Written) -> None:
        before = self.views.get(written.view.id)
        if before is not None and written.view.cost_microusd < before.cost_microusd:
            self.shrunk.append(written.view.id)
        self.views[written.view.id] = written.view
        for recorded in written.recorded:
            commit = Commit(self.loop.time(), process, self.leader, recorded)
            self.commits.append(commit)
            self.trace(
                f"{process} wrote {recorded.position} {type(recorded.event).__name__} {recorded.job_id}"
            )
            self.on_commit(commit)

    def led(self, guard: Guard | None) -> None:
        if guard is not None and guard.holder != self.leader:
            self.leader = guard.holder
            self.trace(f"{guard.holder} leads")


class _Watched:
    """A `Journal` that tells a witness. Stores without threads commit before they return, so the order is true."""

    def __init__(self, journal: Journal, process: str, witness: Witness) -> None:
        self._journal, self._process, self._witness = journal, process, witness
        self.view, self.find, self.live = journal.view, journal.find, journal.live
        self.events, self.head, self.usages = journal.events, journal.head, journal.usages

    async def submit(self, *args: Any, **options: Any) -> Written:
        return self._told(await self._journal.submit(*args, **options))

    async def transact(self, *args: Any, **options: Any) -> Written:
        return self._told(await self._journal.transact(*args, **options))

    async def acquire(self, name: str, holder: str, *, ttl_s: float) -> Guard | None:
        guard = await self._journal.acquire(name, holder, ttl_s=ttl_s)
        self._witness.led(guard)
        return guard

    def _told(self, written: Written) -> Written:
        self._witness.saw(self._process, written)
        return written
