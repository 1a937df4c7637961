"""A journal in dictionaries that behaves like the SQL journal. Its content is lost with the process.

Views and events are immutable, so they are shared with the caller and never copied.
"""

import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from anygpu.errors import Conflict, LeaseLost, NotFound
from anygpu.events.fold import Recorded, step
from anygpu.events.slots import SlotUsage, TenantKey, tenant_of, used_slot_s
from anygpu.events.types import AttemptReleased, Event, JobDeleted, JobSubmitted
from anygpu.events.view import JobView
from anygpu.store import search
from anygpu.store.journal import (
    COUNT_LIMIT,
    Decide,
    Guard,
    JobCounts,
    JobPage,
    JobQuery,
    OnCommit,
    TransactionResult,
    has_filters,
)
from anygpu.store.scope import AnyScope, Scope, SystemScope


@dataclass(slots=True)
class _Project:
    events: list[Recorded] = field(default_factory=list)
    head: int = 0  # position of the newest event
    jobs: list[str] = field(default_factory=list)  # in order of submission
    keys: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Job:
    view: JobView
    project: _Project
    events: list[Recorded]


@dataclass(slots=True)
class _Lease:
    holder: str
    epoch: int
    until_s: float


class MemoryJournal:
    """An in-memory `Journal`. `now_s` is the clock by which leases expire."""

    def __init__(
        self, *, now_s: Callable[[], float] = time.monotonic, on_commit: OnCommit | None = None
    ) -> None:
        self._now_s = now_s
        self._on_commit = on_commit
        self._projects: dict[tuple[str, str], _Project] = {}
        self._jobs: dict[str, _Job] = {}
        self._live: dict[str, _Job] = {}
        self._deleted: set[str] = set()
        self._leases: dict[str, _Lease] = {}
        self._usages: dict[TenantKey, SlotUsage] = {}

    async def submit(
        self, scope: Scope, job_id: str, event: JobSubmitted, *, at_ms: int
    ) -> TransactionResult:
        project = self._projects.setdefault((scope.organisation, scope.project), _Project())
        key = event.spec.idempotency_key
        if key is not None and project.keys.get(key) in self._deleted:
            raise Conflict("the job with this idempotency key was deleted")
        if key is not None and key in project.keys:
            return TransactionResult(view=self._jobs[project.keys[key]].view, recorded=())
        if job_id in self._jobs or job_id in self._deleted:
            raise Conflict(f"job {job_id} exists already")
        recorded = _record(scope.organisation, scope.project, project, job_id, event, at_ms)
        job = _Job(step(None, recorded), project, [recorded])
        project.events.append(recorded)
        project.head = recorded.position
        project.jobs.append(job_id)
        if key is not None:
            project.keys[key] = job_id
        self._jobs[job_id] = self._live[job_id] = job
        return self._notify(TransactionResult(view=job.view, recorded=(recorded,)))

    async def job_with_key(self, scope: Scope, key: str) -> JobView | None:
        project = self._projects.get((scope.organisation, scope.project))
        found = None if project is None else project.keys.get(key)
        return self._jobs[found].view if found is not None and found not in self._deleted else None

    async def transact(
        self, scope: AnyScope, job_id: str, decide: Decide, *, at_ms: int, guard: Guard | None = None
    ) -> TransactionResult:
        self._check(guard)
        job = self._job(scope, job_id)
        view = job.view
        recorded: list[Recorded] = []
        for event in decide(view):
            one = _record(view.organisation, view.project, job.project, job_id, event, at_ms, len(recorded))
            view = step(view, one)
            recorded.append(one)
        job.view = view
        job.events += recorded
        job.project.events += recorded
        job.project.head += len(recorded)
        self._add_usage(view, recorded)
        if view.is_terminal:
            self._live.pop(job_id, None)
        return self._notify(TransactionResult(view=view, recorded=tuple(recorded)))

    async def view(self, scope: AnyScope, job_id: str) -> JobView:
        return self._job(scope, job_id).view

    async def find(self, scope: Scope, query: JobQuery) -> JobPage:
        before = search.decode_cursor(query.cursor) if query.cursor is not None else None
        project = self._projects.get((scope.organisation, scope.project), _Project())
        jobs = [self._jobs[job_id] for job_id in reversed(project.jobs)]
        fit = [
            job
            for job in jobs
            if (before is None or job.events[0].position < before) and _matches(job.view, query)
        ]
        page = fit[: query.limit]
        more = search.encode_cursor(page[-1].events[0].position) if page and len(fit) > query.limit else None
        return JobPage(jobs=tuple(job.view for job in page), next_cursor=more)

    async def count(self, scope: Scope, query: JobQuery) -> JobCounts:
        project = self._projects.get((scope.organisation, scope.project), _Project())
        views = [self._jobs[job_id].view for job_id in reversed(project.jobs)]
        matching = [str(view.status) for view in views if _matches(view, query)]
        limit = COUNT_LIMIT if has_filters(query) else len(matching)
        counts = Counter(matching[:limit])
        counts.update({status: matching.count(status) - counts[status] for status in search.ACTIVE})
        return JobCounts(by_status=counts, is_exact=len(matching) <= limit)

    async def live(self) -> Sequence[JobView]:
        views = [job.view for job in self._live.values()]
        return sorted(views, key=lambda view: (view.submitted_at_ms, view.id))

    async def events(
        self, scope: Scope, *, after: int, limit: int, job_id: str | None = None
    ) -> Sequence[Recorded]:
        if job_id is None:
            events = self._projects.get((scope.organisation, scope.project), _Project()).events
        else:
            events = self._job(scope, job_id).events
        start = bisect_right(events, after, key=lambda recorded: recorded.position)
        return events[start : start + limit]

    async def events_before(
        self, scope: Scope, job_id: str, *, before: int, limit: int
    ) -> Sequence[Recorded]:
        events = [each for each in self._job(scope, job_id).events if each.position < before]
        return events[max(0, len(events) - limit) :]

    async def count_events(self, scope: Scope, job_id: str) -> int:
        return len(self._job(scope, job_id).events)

    async def delete(self, scope: Scope, job_id: str, *, at_ms: int) -> None:
        job = self._job(scope, job_id)
        view, project = job.view, job.project
        if not view.is_terminal:
            raise Conflict(f"job {job_id} has not ended")
        event = JobDeleted(
            name=view.name, status=view.status, cost_microusd=view.cost_microusd, person=scope.person
        )
        recorded = _record(view.organisation, view.project, project, job_id, event, at_ms)
        del self._jobs[job_id]
        self._deleted.add(job_id)
        project.jobs.remove(job_id)
        project.events = [one for one in project.events if one.job_id != job_id]
        project.events.append(recorded)
        project.head = recorded.position
        self._notify(TransactionResult(view=view, recorded=(recorded,)))

    async def usages(self) -> Mapping[TenantKey, SlotUsage]:
        return dict(self._usages)

    def _add_usage(self, view: JobView, recorded: Sequence[Recorded]) -> None:
        for one in recorded:
            used_s = used_slot_s(view, one.event.attempt) if isinstance(one.event, AttemptReleased) else 0.0
            if used_s:
                usage = self._usages.get(tenant_of(view), SlotUsage())
                self._usages[tenant_of(view)] = usage.add(used_s, one.at_ms / 1000)

    async def head(self, scope: Scope) -> int:
        project = self._projects.get((scope.organisation, scope.project))
        return project.head if project else 0

    async def acquire(self, name: str, holder: str, *, ttl_s: float) -> Guard | None:
        now_s = self._now_s()
        lease = self._leases.get(name)
        if lease is not None and lease.holder != holder and lease.until_s > now_s:
            return None
        if lease is None or lease.holder != holder:
            lease = _Lease(holder, lease.epoch + 1 if lease else 1, 0)
        lease.until_s = now_s + ttl_s
        self._leases[name] = lease
        return Guard(name=name, holder=holder, epoch=lease.epoch)

    def _check(self, guard: Guard | None) -> None:
        if guard is None:
            return
        lease = self._leases.get(guard.name)
        if lease is None or (lease.holder, lease.epoch) != (guard.holder, guard.epoch):
            raise LeaseLost()

    def _job(self, scope: AnyScope, job_id: str) -> _Job:
        job = self._jobs.get(job_id)
        if job is None or not _is_in_scope(scope, job.view):
            raise NotFound(f"no job {job_id}")
        return job

    def _notify(self, written: TransactionResult) -> TransactionResult:
        if self._on_commit is not None and written.recorded:
            self._on_commit(written.recorded)
        return written


def _record(
    organisation: str, name: str, project: _Project, job_id: str, event: Event, at_ms: int, ahead: int = 0
) -> Recorded:
    return Recorded(
        organisation=organisation,
        project=name,
        position=project.head + ahead + 1,
        job_id=job_id,
        at_ms=at_ms,
        event=event,
    )


def _is_in_scope(scope: AnyScope, view: JobView) -> bool:
    if isinstance(scope, SystemScope):
        return True
    return (scope.organisation, scope.project) == (view.organisation, view.project)


def _matches(view: JobView, query: JobQuery) -> bool:
    if query.submitted_after_ms is not None and view.submitted_at_ms < query.submitted_after_ms:
        return False
    if query.submitted_before_ms is not None and view.submitted_at_ms >= query.submitted_before_ms:
        return False
    if query.id_prefix is not None and not _has_prefix(view.id, query.id_prefix):
        return False
    if query.id_suffix is not None and not _has_suffix(view.id, query.id_suffix):
        return False
    groups = search.query_groups(query)
    if not groups:
        return True
    has = search.search_terms(view)
    return all(any(term in has for term in group) for group in groups)


def _has_prefix(job_id: str, prefix: str) -> bool:
    start = search.normalize_id_prefix(prefix)
    return start is not None and job_id.startswith(start)


def _has_suffix(job_id: str, suffix: str) -> bool:
    end = search.normalize_id_suffix(suffix)
    return end is not None and job_id.endswith(end)
