"""The journal in SQL, with the control lease and how much of the own machines each project has used."""

# ruff: noqa: S608 - statements are built from constants; every value is a parameter

from collections.abc import Mapping, Sequence
from functools import partial

from sqlalchemy import Connection

from anygpu.errors import LeaseLost
from anygpu.events.fold import Recorded, step
from anygpu.events.slots import SlotKind, SlotUsage, TenantKey, tenant_of, used_slot_s
from anygpu.events.types import AttemptReleased, JobSubmitted
from anygpu.events.view import FOLD_VERSION, JobView
from anygpu.store.journal import (
    Decide,
    Guard,
    JobCounts,
    JobPage,
    JobQuery,
    OnCommit,
    TransactionResult,
    require_intact,
)
from anygpu.store.scope import AnyScope, Scope, SystemScope
from anygpu.store.sql import deletion, job_query, jobs
from anygpu.store.sql.cost_rows import record_costs
from anygpu.store.sql.engine.database import Database
from anygpu.store.sql.engine.statements import execute, fetch_all, fetch_one, for_share, for_update, now_ms
from anygpu.store.sql.event_rows import read_events

REFOLD_BATCH = 200


class SqlJournal:
    """A `Journal` in SQL. Every method but `refold_stale` is one transaction."""

    def __init__(self, database: Database, *, on_commit: OnCommit | None = None, alone: bool = False) -> None:
        """Create the journal.

        Set `alone` if no other process writes to the database; cached states of jobs are then always current.
        `on_commit` is called with the new events after each commit.
        """
        self._database = database
        self._is_sole_writer = alone
        self._on_commit = on_commit
        self._views = jobs.ViewCache()

    async def submit(
        self, scope: Scope, job_id: str, event: JobSubmitted, *, at_ms: int
    ) -> TransactionResult:
        def work(connection: Connection) -> TransactionResult:
            project = jobs.lock_project(connection, scope)
            first = jobs.find_by_idempotency_key(connection, project, event.spec.idempotency_key)
            if first is not None:
                return TransactionResult(
                    view=jobs.load(connection, self._views, scope, first).view, recorded=()
                )
            recorded = jobs.insert(connection, project, scope, job_id, event, at_ms)
            return TransactionResult(view=step(None, recorded), recorded=(recorded,))

        return await self._database.write(work, then=self._after_commit)

    async def job_with_key(self, scope: Scope, key: str) -> JobView | None:
        def work(connection: Connection) -> JobView | None:
            project = jobs.find_project(connection, scope)
            found = None if project is None else jobs.find_by_idempotency_key(connection, project, key)
            if found is None or jobs.is_deleted(connection, found):
                return None
            return jobs.load(connection, self._views, scope, found).view

        return await self._database.read(work)

    async def transact(
        self, scope: AnyScope, job_id: str, decide: Decide, *, at_ms: int, guard: Guard | None = None
    ) -> TransactionResult:
        def work(connection: Connection) -> TransactionResult:
            _check_guard(connection, guard)
            job = jobs.load(connection, self._views, scope, job_id, lock=True)
            require_intact(job.view)
            events = decide(job.view)
            if not events:
                return TransactionResult(view=job.view, recorded=())
            view, recorded = jobs.append(connection, job, events, at_ms)
            _add_usages(connection, job.project_id, view, recorded)
            record_costs(connection, job.project_id, view, recorded)
            return TransactionResult(view=view, recorded=recorded)

        return await self._database.write(work, then=self._after_commit)

    async def view(self, scope: AnyScope, job_id: str) -> JobView:
        cached = self._views.newest(job_id) if self._is_sole_writer else None
        if cached is not None and _is_within(scope, cached):
            return cached

        def work(connection: Connection) -> JobView:
            return jobs.load(connection, self._views, scope, job_id).view

        return self._cache(await self._database.read(work))

    async def find(self, scope: Scope, query: JobQuery) -> JobPage:
        return await self._database.read(
            lambda connection: job_query.find_jobs(connection, self._views, scope, query)
        )

    async def count(self, scope: Scope, query: JobQuery) -> JobCounts:
        return await self._database.read(lambda connection: job_query.count_jobs(connection, scope, query))

    async def live(self) -> Sequence[JobView]:
        return [
            self._cache(view)
            for view in await self._database.read(lambda connection: jobs.read_live(connection, self._views))
        ]

    async def events(
        self, scope: Scope, *, after: int, limit: int, job_id: str | None = None
    ) -> Sequence[Recorded]:
        def work(connection: Connection) -> list[Recorded]:
            if job_id is None:
                owner: object = jobs.find_project(connection, scope)
                where = "e.project_id = ? AND e.position > ?"
            else:
                jobs.load(connection, self._views, scope, job_id)
                where, owner = "e.job_id = ? AND e.position > ?", job_id
            return read_events(connection, where, (owner, after), limit=max(limit, 0))

        return await self._database.read(work)

    async def events_before(
        self, scope: Scope, job_id: str, *, before: int, limit: int
    ) -> Sequence[Recorded]:
        def work(connection: Connection) -> list[Recorded]:
            jobs.load(connection, self._views, scope, job_id)
            where = "e.job_id = ? AND e.position < ?"
            newest = read_events(connection, where, (job_id, before), limit=max(limit, 0), newest_first=True)
            return newest[::-1]

        return await self._database.read(work)

    async def count_events(self, scope: Scope, job_id: str) -> int:
        def work(connection: Connection) -> int:
            jobs.load(connection, self._views, scope, job_id)
            row = fetch_one(connection, "SELECT COUNT(*) FROM events WHERE job_id = ?", (job_id,))
            return int(row[0]) if row else 0

        return await self._database.read(work)

    async def delete(self, scope: Scope, job_id: str, *, at_ms: int) -> None:
        def work(connection: Connection) -> Recorded:
            return deletion.delete_job(connection, self._views, scope, job_id, at_ms)

        def after_commit(recorded: Recorded) -> None:
            self._views.forget(job_id)
            if self._on_commit is not None:
                self._on_commit((recorded,))

        await self._database.write(work, then=after_commit)
        await deletion.purge_events(self._database, job_id)

    async def usages(self) -> Mapping[TenantKey, SlotUsage]:
        return await self._database.read(_read_usages)

    async def head(self, scope: Scope) -> int:
        def work(connection: Connection) -> int:
            sql = "SELECT head FROM projects WHERE organisation = ? AND project = ?"
            row = fetch_one(connection, sql, (scope.organisation, scope.project))
            return int(row[0]) if row else 0

        return await self._database.read(work)

    async def acquire(self, name: str, holder: str, *, ttl_s: float) -> Guard | None:
        return await self._database.write(lambda connection: _acquire_lease(connection, name, holder, ttl_s))

    async def refold_stale(self, *, batch: int = REFOLD_BATCH) -> int:
        """Compute again the states of jobs that were stored by another version.

        Damaged states of live jobs are also computed again. Before its state is updated, filters may not find a job.
        Each transaction handles `batch` jobs, so that others can write in between. Return the number of updated states.
        """
        updated, after = 0, ""
        while True:
            count, last = await self._database.write(partial(self._refold_batch, after=after, batch=batch))
            updated += count
            if last is None:
                return updated
            after = last

    def _refold_batch(self, connection: Connection, *, after: str, batch: int) -> tuple[int, str | None]:
        """Update states of jobs whose ids follow `after`. Return how many, and the last id; None: no more follow."""
        sql = (
            f"SELECT {jobs.COLUMNS} FROM jobs j WHERE (j.fold_version <> ? OR j.live) AND j.id > ?"
            " ORDER BY j.id LIMIT ?"
        )
        rows = fetch_all(connection, sql, (FOLD_VERSION, after, batch))
        stale = [job for row in rows if (job := jobs.to_job_row(connection, self._views, row)).stale]
        intact = [job for job in stale if not job.view.damaged]
        for job in intact:
            jobs.save(connection, job, job.view)
        return len(intact), rows[-1][0] if len(rows) == batch else None

    def _after_commit(self, written: TransactionResult) -> None:
        self._cache(written.view)
        if self._on_commit is not None and written.recorded:
            self._on_commit(written.recorded)

    def _cache(self, view: JobView) -> JobView:
        self._views.put(view)
        return view


def _is_within(scope: AnyScope, view: JobView) -> bool:
    return isinstance(scope, SystemScope) or (scope.organisation, scope.project) == (
        view.organisation,
        view.project,
    )


def _acquire_lease(connection: Connection, name: str, holder: str, ttl_s: float) -> Guard | None:
    """Acquire or renew a lease.

    Each lease has a number, which a renewal keeps and a new holder increases. Return None while another holder has the
    lease.
    """
    now = now_ms(connection)
    execute(
        connection,
        "INSERT INTO leases (name, holder, epoch, expires_ms) VALUES (?, '', 0, 0) ON CONFLICT DO NOTHING",
        (name,),
    )
    sql = "SELECT holder, epoch, expires_ms FROM leases WHERE name = ?" + for_update(connection)
    row = fetch_one(connection, sql, (name,))
    previous, epoch, expires_ms = row if row else ("", 0, 0)
    if previous != holder and expires_ms > now:
        return None
    epoch += previous != holder
    execute(
        connection,
        "UPDATE leases SET holder = ?, epoch = ?, expires_ms = ? WHERE name = ?",
        (holder, epoch, now + round(ttl_s * 1000), name),
    )
    return Guard(name=name, holder=holder, epoch=epoch)


def _check_guard(connection: Connection, guard: Guard | None) -> None:
    """Raise LeaseLost if another process has acquired the lease since the guard was issued.

    The row of the lease is locked, so that no other process acquires the lease before the commit.
    """
    if guard is None:
        return
    sql = "SELECT 1 FROM leases WHERE name = ? AND holder = ? AND epoch = ?" + for_share(connection)
    if fetch_one(connection, sql, (guard.name, guard.holder, guard.epoch)) is None:
        raise LeaseLost()


def _add_usages(connection: Connection, project_id: int, view: JobView, recorded: Sequence[Recorded]) -> None:
    """Add the slot-seconds (GPUs or CPUs times seconds) of ended attempts to the usage of their projects.

    The transaction that appends `AttemptReleased` adds the usage, so each attempt is counted once.
    """
    for each in recorded:
        used_s = used_slot_s(view, each.event.attempt) if isinstance(each.event, AttemptReleased) else 0.0
        if used_s:
            _add_usage(connection, project_id, tenant_of(view).kind, used_s, each.at_ms / 1000)


def _add_usage(connection: Connection, project_id: int, kind: SlotKind, used_s: float, now_s: float) -> None:
    sql = "SELECT slot_s, at_s FROM slot_usages WHERE project_id = ? AND kind = ?"
    row = fetch_one(connection, sql, (project_id, str(kind)))
    usage = (SlotUsage(*row) if row else SlotUsage()).add(used_s, now_s)
    execute(
        connection,
        "INSERT INTO slot_usages (project_id, kind, slot_s, at_s) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (project_id, kind) DO UPDATE SET slot_s = excluded.slot_s, at_s = excluded.at_s",
        (project_id, str(kind), usage.gpu_s, usage.at_s),
    )


def _read_usages(connection: Connection) -> Mapping[TenantKey, SlotUsage]:
    sql = (
        "SELECT p.organisation, p.project, u.kind, u.slot_s, u.at_s"
        " FROM slot_usages u JOIN projects p ON p.id = u.project_id"
    )
    return {
        TenantKey(organisation, project, SlotKind(kind)): SlotUsage(slot_s, at_s)
        for organisation, project, kind, slot_s, at_s in fetch_all(connection, sql)
    }
