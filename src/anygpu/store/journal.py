"""The journal interface: the append-only log of events, and the current state (view) of each job.

The view of a job is computed from its events (`anygpu.events.fold`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from anygpu.errors import JobDamaged
from anygpu.events.fold import Recorded
from anygpu.events.slots import SlotUsage, TenantKey
from anygpu.events.types import Event, JobSubmitted
from anygpu.events.view import JobView
from anygpu.store.scope import AnyScope, Scope

# Must be pure: the function may run in another thread, and again when the transaction is retried.
Decide = Callable[[JobView], Sequence[Event]]
# Called with the committed events in the writer's event loop, even if the writer was cancelled meanwhile.
# Only a wake-up: several processes or writers may be called out of order. `events` has the right order.
OnCommit = Callable[[Sequence[Recorded]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """Proof that the writer holds the control lease, which only one server process has at a time.

    Once another process holds the lease, every write with this guard raises LeaseLost.
    """

    name: str
    holder: str
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionResult:
    """The state of the job after a transaction, and the events that the transaction appended (possibly none)."""

    view: JobView
    recorded: tuple[Recorded, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobQuery:
    """Filters for a page of jobs, newest first. A job must match every field that is set."""

    status: tuple[str, ...] = ()  # `active`: every status that is not terminal
    phase: tuple[str, ...] = ()
    name: str | None = None  # exact
    id_prefix: str | None = None
    id_suffix: str | None = None
    tag: str | None = None
    backend: str | None = None  # of the newest attempt
    person: str | None = None
    text: str | None = None  # words (prefixes) in name, tags, notes, script, command, model
    submitted_after_ms: int | None = None  # inclusive
    submitted_before_ms: int | None = None  # exclusive
    cursor: str | None = None
    limit: int = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPage:
    jobs: tuple[JobView, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCounts:
    """The number of jobs by status.

    If very many jobs match, those that have ended are counted up to a limit, newest first (`is_exact` is then false).
    """

    by_status: Mapping[str, int]
    is_exact: bool = True


def has_filters(query: JobQuery) -> bool:
    """Return whether a query leaves out any job. The page (cursor and limit) does not matter."""
    return replace(query, cursor=None, limit=JobQuery().limit) != JobQuery()


COUNT_LIMIT = 10_000  # jobs that are counted for a query with filters


def require_intact(view: JobView) -> None:
    """Raise JobDamaged if the events of the job are damaged."""
    if view.damaged:
        raise JobDamaged(
            f"Job {view.name or view.id} cannot be changed, because its events are damaged: {view.damaged}.",
            hint="Restore the database from a backup. Or delete the job: its machines are then ended.",
        )


class Journal(Protocol):
    """One ordered log of events per project, and the current state (view) of each job, computed from its events.

    Positions have no gaps, except those that deleted jobs leave.
    """

    async def submit(
        self, scope: Scope, job_id: str, event: JobSubmitted, *, at_ms: int
    ) -> TransactionResult:
        """Append the first event of a job. Raises Conflict if the id is already used.

        If the project already has a job with this idempotency key, return that job and append nothing. Raises
        Conflict if that job was deleted.
        """
        ...

    async def job_with_key(self, scope: Scope, key: str) -> JobView | None:
        """Return the job that the caller's project submitted with this idempotency key; None if there is none."""
        ...

    async def transact(
        self, scope: AnyScope, job_id: str, decide: Decide, *, at_ms: int, guard: Guard | None = None
    ) -> TransactionResult:
        """Read the state of a job, call `decide` with it, and append the events it returns, all in one transaction.

        Raises NotFound if the job is outside the scope, JobDamaged if its events cannot be read, and LeaseLost if
        another process holds the lease of the guard. If `decide` raises an error, or returns an event that the state of
        the job does not allow, nothing is written.
        """
        ...

    async def view(self, scope: AnyScope, job_id: str) -> JobView:
        """Return the current state of a job.

        If the events of the job are damaged, the field `damaged` of the result has the reason, and the other fields
        have what is still known. This also applies to `find` and `live`.
        """
        ...

    async def find(self, scope: Scope, query: JobQuery) -> JobPage: ...

    async def count(self, scope: Scope, query: JobQuery) -> JobCounts:
        """Return how many jobs match the filters, by status.

        The counts of a whole project are exact. With filters, at most `COUNT_LIMIT` jobs are counted.
        """
        ...

    async def live(self) -> Sequence[JobView]:
        """Return the current states of all jobs, of all organisations, that have not ended, oldest first."""
        ...

    async def events(
        self, scope: Scope, *, after: int, limit: int, job_id: str | None = None
    ) -> Sequence[Recorded]:
        """Return at most `limit` events of the scope's project whose position is greater than `after`, in order.

        Raises NotFound if `job_id` is not in the project.
        """
        ...

    async def events_before(
        self, scope: Scope, job_id: str, *, before: int, limit: int
    ) -> Sequence[Recorded]:
        """Return the newest `limit` events of a job whose position is less than `before`, in order.

        Raises NotFound if the job is not in the project.
        """
        ...

    async def count_events(self, scope: Scope, job_id: str) -> int:
        """Return the number of events of a job. Raises NotFound if the job is not in the project."""
        ...

    async def delete(self, scope: Scope, job_id: str, *, at_ms: int) -> None:
        """Delete a job that has ended, and its events. Raises Conflict if the job has not ended.

        The event `JobDeleted` remains in the log of the project, with the cost of the job. The id and the
        idempotency key of the job cannot be used again. `Reports.delete` deletes the job's reports.
        """
        ...

    async def usages(self) -> Mapping[TenantKey, SlotUsage]:
        """Return how many slot-seconds (slots times seconds) each project has used on its organisation's own machines.

        A slot is one GPU, or one CPU for jobs without GPUs. The slot-seconds of an attempt are added when its machine
        is released.
        """
        ...

    async def head(self, scope: Scope) -> int:
        """Return the position of the project's newest event, or 0 if there is none."""
        ...

    async def acquire(self, name: str, holder: str, *, ttl_s: float) -> Guard | None:
        """Acquire or renew the control lease for `ttl_s` seconds by the store's clock, and return a guard as its proof.

        Return None while another process has the lease.
        """
        ...
