"""The journal's seam: the append-only log of what happened, and the view of each job it implies."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from anygpu.events.fold import Recorded
from anygpu.events.slots import SlotUsage, TenantKey
from anygpu.events.types import Event, JobSubmitted
from anygpu.events.view import JobView
from anygpu.store.scope import AnyScope, Scope

# Pure: it may run in another thread, and again when the transaction has to be repeated.
Decide = Callable[[JobView], Sequence[Event]]
# Told what was committed, in the event loop of the writer, even when the writer has been cancelled meanwhile.
# A hint to look now: between processes, and between writers on PostgreSQL, `events` alone has the order.
OnCommit = Callable[[Sequence[Recorded]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """Proof of leadership: a write that carries it is refused (LeaseLost) once somebody else leads."""

    name: str
    holder: str
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionResult:
    """What a transaction appended (possibly nothing) and the view after it."""

    view: JobView
    recorded: tuple[Recorded, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobQuery:
    """Filters for a page of jobs, the last submitted first. Every field narrows; None does not."""

    status: tuple[str, ...] = ()
    phase: tuple[str, ...] = ()
    name: str | None = None  # exact
    id_prefix: str | None = None
    tag: str | None = None
    backend: str | None = None  # of the newest attempt
    person: str | None = None
    text: str | None = None  # words (prefixes) in name, tags, script, command, model
    submitted_after_ms: int | None = None  # from this moment on
    submitted_before_ms: int | None = None  # until just before this one
    cursor: str | None = None
    limit: int = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPage:
    jobs: tuple[JobView, ...]
    next_cursor: str | None


class Journal(Protocol):
    """One gap-free, ordered log of events per project, and the view of each job folded from it."""

    async def submit(
        self, scope: Scope, job_id: str, event: JobSubmitted, *, at_ms: int
    ) -> TransactionResult:
        """Append the first event of a job. Conflict when the id is taken.

        The same idempotency key in the project answers with the first job, and records nothing.
        """
        ...

    async def transact(
        self, scope: AnyScope, job_id: str, decide: Decide, *, at_ms: int, guard: Guard | None = None
    ) -> TransactionResult:
        """Load the view, ask `decide` for events, append them: one transaction.

        NotFound outside the scope, LeaseLost when the guard's holder no longer leads. What `decide`
        raises, or an event out of turn, undoes it all.
        """
        ...

    async def view(self, scope: AnyScope, job_id: str) -> JobView: ...

    async def find(self, scope: Scope, query: JobQuery) -> JobPage: ...

    async def live(self) -> Sequence[JobView]:
        """Every job of every organisation that is not terminal, oldest first."""
        ...

    async def events(
        self, scope: Scope, *, after: int, limit: int, job_id: str | None = None
    ) -> Sequence[Recorded]:
        """Events of the scope's project with a position greater than `after`, in order.

        NotFound for a job that is not in it.
        """
        ...

    async def usages(self) -> Mapping[TenantKey, SlotUsage]:
        """What every tenant has used of machines of one's own, written with each attempt's release."""
        ...

    async def head(self, scope: Scope) -> int:
        """The position of the project's newest event, 0 when there is none."""
        ...

    async def acquire(self, name: str, holder: str, *, ttl_s: float) -> Guard | None:
        """Become (or stay) the leader by the store's own clock; None while somebody else is."""
        ...
