"""The journal in SQL."""

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection

from anygpu.events.fold import Recorded, step
from anygpu.events.slots import SlotUsage, TenantKey
from anygpu.events.types import JobSubmitted
from anygpu.events.view import FOLD_VERSION, JobView
from anygpu.store.journal import Decide, Guard, JobPage, JobQuery, OnCommit, Written
from anygpu.store.scope import SYSTEM, AnyScope, Scope, SystemScope
from anygpu.store.sql import finding, jobs, leases, usages
from anygpu.store.sql.database import Database
from anygpu.store.sql.statements import row, rows


class SqlJournal:
    """A `Journal`. Every method is one transaction."""

    def __init__(self, database: Database, *, on_commit: OnCommit | None = None, alone: bool = False) -> None:
        """`alone`: nothing but this object writes jobs, so that what it committed last is how they are."""
        self._database = database
        self._alone = alone
        self._on_commit = on_commit
        self._views = jobs.Views()

    async def submit(self, scope: Scope, job_id: str, event: JobSubmitted, *, at_ms: int) -> Written:
        def work(connection: Connection) -> Written:
            project = jobs.locked_project(connection, scope)
            first = jobs.first_with_key(connection, project, event.spec.idempotency_key)
            if first is not None:
                return Written(view=jobs.load(connection, self._views, scope, first).view, recorded=())
            recorded = jobs.start(connection, project, scope, job_id, event, at_ms)
            return Written(view=step(None, recorded), recorded=(recorded,))

        return await self._database.write(work, then=self._committed)

    async def transact(
        self, scope: AnyScope, job_id: str, decide: Decide, *, at_ms: int, guard: Guard | None = None
    ) -> Written:
        def work(connection: Connection) -> Written:
            leases.check(connection, guard)
            job = jobs.load(connection, self._views, scope, job_id, lock=True)
            events = decide(job.view)
            if not events:
                return Written(view=job.view, recorded=())
            view, recorded = jobs.append(connection, job, events, at_ms)
            usages.add(connection, job.project_id, view, recorded)
            return Written(view=view, recorded=recorded)

        return await self._database.write(work, then=self._committed)

    async def view(self, scope: AnyScope, job_id: str) -> JobView:
        known = self._views.newest(job_id) if self._alone else None
        if known is not None and _is_within(scope, known):
            return known

        def work(connection: Connection) -> JobView:
            return jobs.load(connection, self._views, scope, job_id).view

        return self._seen(await self._database.read(work))

    async def find(self, scope: Scope, query: JobQuery) -> JobPage:
        return await self._database.read(
            lambda connection: finding.find(connection, self._views, scope, query)
        )

    async def live(self) -> Sequence[JobView]:
        return [
            self._seen(view)
            for view in await self._database.read(lambda connection: jobs.live(connection, self._views))
        ]

    async def events(
        self, scope: Scope, *, after: int, limit: int, job_id: str | None = None
    ) -> Sequence[Recorded]:
        def work(connection: Connection) -> list[Recorded]:
            if job_id is None:
                owner: object = jobs.project_id(connection, scope)
                where = "e.project_id = ? AND e.position > ?"
            else:
                jobs.load(connection, self._views, scope, job_id)
                where, owner = "e.job_id = ? AND e.position > ?", job_id
            return jobs.history(connection, where, (owner, after), limit=max(limit, 0))

        return await self._database.read(work)

    async def usages(self) -> Mapping[TenantKey, SlotUsage]:
        return await self._database.read(usages.read)

    async def head(self, scope: Scope) -> int:
        def work(connection: Connection) -> int:
            sql = "SELECT head FROM projects WHERE organisation = ? AND project = ?"
            found = row(connection, sql, (scope.organisation, scope.project))
            return int(found[0]) if found else 0

        return await self._database.read(work)

    async def acquire(self, name: str, holder: str, *, ttl_s: float) -> Guard | None:
        return await self._database.write(lambda connection: leases.acquire(connection, name, holder, ttl_s))

    async def refold_stale(self, *, most: int = 500) -> int:
        """Rewrite views folded by other rules, so that filters see them as the new ones do; how many there were."""

        def work(connection: Connection) -> int:
            sql = "SELECT id FROM jobs WHERE fold_version <> ? LIMIT ?"
            stale = rows(connection, sql, (FOLD_VERSION, most))
            for (job_id,) in stale:
                job = jobs.load(connection, self._views, SYSTEM, job_id, lock=True)
                jobs.save(connection, job, job.view)
            return len(stale)

        return await self._database.write(work)

    def _committed(self, written: Written) -> None:
        self._seen(written.view)
        if self._on_commit is not None and written.recorded:
            self._on_commit(written.recorded)

    def _seen(self, view: JobView) -> JobView:
        self._views.put(view)
        return view


def _is_within(scope: AnyScope, view: JobView) -> bool:
    return isinstance(scope, SystemScope) or (scope.organisation, scope.project) == (
        view.organisation,
        view.project,
    )
