"""The loop: compare what should be with what is, do the next step, again. Killed anywhere, it continues."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field

from anygpu.control.clock import Clock, Wake
from anygpu.control.ids import read_attempt_name
from anygpu.control.money import orphan_usage
from anygpu.control.policy import ControlPolicy
from anygpu.control.reconcile.attempt import AttemptReconciler
from anygpu.control.schedule.compare import EXPLAIN_BATCH, lacks_plan
from anygpu.control.schedule.deadline import has_deadline
from anygpu.control.schedule.queue import is_waiting
from anygpu.control.schedule.scheduler import Scheduler
from anygpu.control.sweep import EndedOrphan, Sweeper
from anygpu.control.timers import TimerQueue
from anygpu.errors import LeaseLost, NotFound
from anygpu.events.types import Event, OrphanEnded
from anygpu.events.view import AttemptView, JobView
from anygpu.store.journal import Guard, Journal
from anygpu.store.scope import SYSTEM

LEADER = "control"
EXPLAIN_RETRY_S = 60.0  # what could not be compared is tried again after this
NO_JOB = ""  # wakes the loop without naming a job: something is due at another time than it was
Report = Callable[[str, Exception], None]


@dataclass(slots=True)
class LeaderTerm:
    """What the leader knows. Thrown away with the lease."""

    guard: Guard
    renewed_at: float
    views: dict[str, JobView] = field(default_factory=dict)
    reconcile_timers: TimerQueue[str] = field(
        default_factory=TimerQueue
    )  # when to look at a job that is not being looked at
    unscheduled: set[str] = field(default_factory=set)  # jobs without a place
    changed: bool = True  # something has changed since places were last given out
    scheduled_at: float = float("-inf")
    schedule_soon: bool = False  # a round came too soon after that
    without_plan: TimerQueue[str] = field(
        default_factory=TimerQueue
    )  # placed without a comparison: when to make one
    with_deadline: set[str] = field(default_factory=set)  # jobs with a deadline that may run on spot
    reconciling: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    rerun: set[str] = field(default_factory=set)  # what was due once more while it was being done
    recovering: dict[str, float] = field(default_factory=dict)
    reloaded_at: float = float("-inf")
    swept_at: float = float("-inf")
    lease_lost: bool = False


class Supervisor:
    """Runs in every control process; only the one that holds the lease acts."""

    def __init__(
        self,
        journal: Journal,
        reconciler: Callable[[], AttemptReconciler],
        scheduler: Scheduler,
        sweeper: Sweeper,
        clock: Clock,
        wake: Wake,
        policy: ControlPolicy,
        holder: str,
        report: Report,
    ) -> None:
        self._journal = journal
        self._new_reconciler = reconciler
        self._scheduler = scheduler
        self._sweeper = sweeper
        self._clock = clock
        self._wake = wake
        self._policy = policy
        self._holder = holder
        self._report = report
        self._sweep_requested = False

    async def run(self) -> None:
        """Never returns; cancel it to stop."""
        while True:
            guard = await self._acquire_lease()
            term = LeaderTerm(guard=guard, renewed_at=self._clock.monotonic())
            try:
                await self._run_term(term, self._new_reconciler())
            except LeaseLost as error:
                self._report("another control process took over", error)
            finally:
                await _stop([*term.reconciling.values(), *term.tasks.values()])

    async def _acquire_lease(self) -> Guard:
        while True:
            guard = await self._try_acquire()
            if guard is not None:
                return guard
            await self._clock.sleep(self._policy.leader_ttl_s / 3)

    async def _try_acquire(self) -> Guard | None:
        try:
            return await self._journal.acquire(LEADER, self._holder, ttl_s=self._policy.leader_ttl_s)
        except Exception as error:  # noqa: BLE001  a store that fails in its own way has not answered either
            self._report("the journal did not answer", error)
            return None

    async def _run_term(self, term: LeaderTerm, reconciler: AttemptReconciler) -> None:
        self._start_task(term, "renewing the lease", lambda: self._renew_lease(term))
        while not term.lease_lost:
            try:
                await self._run_round(term, reconciler)
            except LeaseLost:
                raise
            except Exception as error:  # noqa: BLE001  one bad round must not end the loop
                self._report("a round of the control loop failed and will be tried again", error)
                term.reloaded_at = float("-inf")
                await self._clock.sleep(self._policy.retry_interval_s)
        raise LeaseLost()

    async def _renew_lease(self, term: LeaderTerm) -> None:
        """Beside the rounds: however long a provider takes to answer, the lease does not run out over it."""
        while not term.lease_lost:
            await self._clock.sleep(self._policy.leader_ttl_s / 3)
            started = self._clock.monotonic()
            guard = await self._try_acquire()
            if guard is not None and guard.epoch == term.guard.epoch:
                term.renewed_at = started
            elif guard is not None or self._clock.monotonic() - term.renewed_at > self._policy.leader_ttl_s:
                raise LeaseLost()

    async def _run_round(self, term: LeaderTerm, reconciler: AttemptReconciler) -> None:
        await self._reload_jobs(term)
        if term.unscheduled:
            self._schedule_or_soon(term, reconciler)
        if term.without_plan.next_at() <= self._clock.monotonic():
            self._start_task(term, "comparing places", lambda: self._explain(term))
        if term.with_deadline and self._scheduler.deadlines.due(_with_deadline(term)):
            self._start_task(term, "minding deadlines", lambda: self._check_deadlines(term))
        if self._scheduler.migrations.next_at() <= self._clock.monotonic():
            self._start_task(term, "looking for better places", lambda: self._check_migrations(term))
        self._start_reconciling(term, reconciler)
        if self._sweep_is_due(term):
            self._start_task(term, "sweeping", lambda: self._sweep(term))
        if reconciler.meters.next_at() <= self._clock.monotonic():
            self._start_task(term, "reading meters", lambda: reconciler.meters.run(term.guard, self._report))
        if reconciler.forecasts.next_at() <= self._clock.monotonic():
            self._start_task(term, "forecasting", lambda: reconciler.forecasts.run(term.guard))
        for job_id in sorted(await self._wake.wait(self._sleep_s(term))):
            if job_id != NO_JOB:
                await self._refresh(term, job_id)

    def _start_task(self, term: LeaderTerm, chore: str, work: Callable[[], Awaitable[None]]) -> None:
        """What waits for providers goes on beside the rounds, one of each kind at a time."""
        if chore in term.tasks:
            term.rerun.add(chore)
        else:
            term.tasks[chore] = asyncio.create_task(self._run_task(term, chore, work))

    async def _run_task(self, term: LeaderTerm, chore: str, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except LeaseLost:
            term.lease_lost = True
            self._wake.set(NO_JOB)
        except Exception as error:  # noqa: BLE001
            self._report(f"{chore} failed and will be tried again", error)
            term.reloaded_at = float("-inf")
            await self._clock.sleep(self._policy.retry_interval_s)
        finally:
            term.tasks.pop(chore, None)
        if chore in term.rerun:
            term.rerun.discard(chore)
            self._wake.set(NO_JOB)

    async def _reload_jobs(self, term: LeaderTerm) -> None:
        """The safety net: read every live job again, whether or not anything woke us."""
        now = self._clock.monotonic()
        if now - term.reloaded_at < self._policy.poll_s:
            return
        term.reloaded_at = now
        live = {view.id: view for view in await self._journal.live()}
        for job_id in [*term.views.keys() - live.keys()]:
            self._forget(term, job_id)
        for view in live.values():
            self._update(term, view)

    async def _refresh(self, term: LeaderTerm, job_id: str) -> None:
        """A look reads the job itself: hundreds that change at once are not read twice, one after the other."""
        if job_id not in term.views or job_id in term.reconciling:
            try:
                self._update(term, await self._journal.view(SYSTEM, job_id))
            except NotFound:
                return
        self._reconcile_now(term, job_id)

    def _update(self, term: LeaderTerm, view: JobView) -> None:
        known = term.views.get(view.id)
        if known is not None and known.position > view.position:
            return
        term.changed = term.changed or known is None or known.position != view.position
        term.views[view.id] = view
        if is_waiting(view):
            term.unscheduled.add(view.id)
        else:
            term.unscheduled.discard(view.id)
        if not lacks_plan(view):
            term.without_plan.drop(view.id)
        elif view.id not in term.without_plan:
            term.without_plan.set(view.id, self._clock.monotonic() + self._policy.explain_after_s)
        if has_deadline(view):
            term.with_deadline.add(view.id)
        self._scheduler.migrations.update(view)
        if view.id not in term.reconcile_timers and view.id not in term.reconciling:
            term.reconcile_timers.set(view.id, self._clock.monotonic())
        if view.recovering_since_ms is None:
            term.recovering.pop(view.id, None)
        else:
            term.recovering.setdefault(view.id, self._clock.monotonic())
        if view.is_terminal:
            self._forget(term, view.id)

    def _forget(self, term: LeaderTerm, job_id: str) -> None:
        term.changed = term.views.pop(job_id, None) is not None or term.changed
        term.reconcile_timers.drop(job_id)
        term.unscheduled.discard(job_id)
        term.without_plan.drop(job_id)
        term.with_deadline.discard(job_id)
        self._scheduler.migrations.forget(job_id)
        term.recovering.pop(job_id, None)

    def _schedule_or_soon(self, term: LeaderTerm, reconciler: AttemptReconciler) -> None:
        """At once when a job has changed; else not too often: everybody who offers places is asked for them."""
        soon = self._clock.monotonic() < term.scheduled_at + self._policy.retry_interval_s
        term.schedule_soon = soon and not term.changed
        if not term.schedule_soon:
            self._start_task(term, "placing", lambda: self._schedule(term, reconciler))

    async def _schedule(self, term: LeaderTerm, reconciler: AttemptReconciler) -> None:
        term.changed, term.scheduled_at = False, self._clock.monotonic()
        waiting = [view for view in term.views.values() if view.id in term.unscheduled]
        ready = [view for view in waiting if self._can_start(term, reconciler, view)]
        if not ready:
            return
        for view in await self._scheduler.run([*term.views.values()], ready, term.guard):
            self._reconcile_soon(term, view)

    async def _check_deadlines(self, term: LeaderTerm) -> None:
        """Jobs with a deadline go from spot to on-demand in time, and back when that pays."""
        self._scheduler.deadlines.keep_only(term.with_deadline)
        due = self._scheduler.deadlines.due(_with_deadline(term))
        for view in await self._scheduler.check_deadlines([*term.views.values()], due, term.guard):
            self._reconcile_soon(term, view)

    async def _check_migrations(self, term: LeaderTerm) -> None:
        """Jobs on machines that cost are told of better places, or go there."""
        due = self._scheduler.migrations.due()
        for job_id in due:
            if job_id not in term.views:
                self._scheduler.migrations.forget(job_id)
        running = [term.views[job_id] for job_id in due if job_id in term.views]
        for view in await self._scheduler.check_migrations([*term.views.values()], running, term.guard):
            self._reconcile_soon(term, view)

    def _reconcile_soon(self, term: LeaderTerm, view: JobView) -> None:
        self._update(term, view)
        self._reconcile_now(term, view.id)
        self._wake.set(NO_JOB)

    def _reconcile_now(self, term: LeaderTerm, job_id: str) -> None:
        if job_id in term.reconciling:
            term.rerun.add(job_id)  # that look began before this was known
        else:
            term.reconcile_timers.set(job_id, self._clock.monotonic())

    async def _explain(self, term: LeaderTerm) -> None:
        now = self._clock.monotonic()
        ripe = term.without_plan.due(now, EXPLAIN_BATCH)
        for job_id in ripe:
            term.without_plan.set(job_id, now + EXPLAIN_RETRY_S)
        for view in await self._scheduler.explainer.run([term.views[job_id] for job_id in ripe], term.guard):
            self._update(term, view)

    def _can_start(self, term: LeaderTerm, reconciler: AttemptReconciler, view: JobView) -> bool:
        """The backoff has passed, and the last attempt can no longer commit anything."""
        if view.newest_attempt is None:
            return True
        waited_s = self._clock.monotonic() - term.recovering.get(view.id, self._clock.monotonic())
        return (
            _is_fenced(view.newest_attempt, reconciler.seconds_since_end(view), self._policy)
            and waited_s >= view.retry_delay_s
        )

    def _start_reconciling(self, term: LeaderTerm, reconciler: AttemptReconciler) -> None:
        for job_id in term.reconcile_timers.due(self._clock.monotonic()):
            term.reconcile_timers.drop(job_id)
            term.reconciling[job_id] = asyncio.create_task(self._reconcile(term, reconciler, job_id))

    async def _reconcile(self, term: LeaderTerm, reconciler: AttemptReconciler, job_id: str) -> None:
        pause_s = self._policy.retry_interval_s
        try:
            view, pause_s = await reconciler.reconcile(job_id, term.guard)
            self._update(term, view)
            reconciler.meters.update(view)
            reconciler.forecasts.update(view)
            if view.is_terminal:
                reconciler.forget(view)
        except LeaseLost:
            term.lease_lost = True
        except Exception as error:  # noqa: BLE001  one bad job must not take the others down
            self._report(f"looking after job {job_id} failed and will be tried again", error)
        finally:
            term.reconciling.pop(job_id, None)
        if job_id in term.views:
            hurry = job_id in term.rerun
            term.reconcile_timers.set(job_id, self._clock.monotonic() + (0.0 if hurry else pause_s))
        term.rerun.discard(job_id)
        self._wake.set(NO_JOB)

    def sweep_now(self) -> None:
        """Sweep at the next round, if this process leads. What was just found unowned is ended by a later sweep."""
        self._sweep_requested = True
        self._wake.set(NO_JOB)

    def _sweep_is_due(self, term: LeaderTerm) -> bool:
        return self._sweep_requested or self._clock.monotonic() - term.swept_at >= self._policy.sweep_every_s

    async def _sweep(self, term: LeaderTerm) -> None:
        term.swept_at, self._sweep_requested = self._clock.monotonic(), False
        await self._sweeper.run([*term.views.values()])
        for swept in await self._sweeper.collect_ended():
            await self._record_orphan_cost(swept, term.guard)

    async def _record_orphan_cost(self, swept: EndedOrphan, guard: Guard) -> None:
        """A machine that turned up after its attempt was over has cost something too."""
        named = read_attempt_name(swept.name)
        if named is None:
            return
        job_id, number = named
        at_ms = self._clock.wall_ms()

        def decide(view: JobView) -> list[Event]:
            attempt = view.attempts[number - 1] if number <= len(view.attempts) else None
            if attempt is None or not attempt.is_released:
                return []
            usage = orphan_usage(attempt, swept.observation, at_ms)
            return [] if usage is None else [OrphanEnded(attempt=number, usage=usage)]

        try:
            await self._journal.transact(SYSTEM, job_id, decide, at_ms=at_ms, guard=guard)
        except NotFound:
            return  # another server's, or its journal was pruned

    def _sleep_s(self, term: LeaderTerm) -> float:
        """Until the next thing is due, if nothing wakes us before."""
        now = self._clock.monotonic()
        chores = {
            "comparing places": term.without_plan.next_at(),
            "looking for better places": self._scheduler.migrations.next_at(),
        }
        late = [
            term.reconcile_timers.next_at(),
            *(at for chore, at in chores.items() if chore not in term.tasks),
        ]
        if min(late) <= now:  # it became due after this round had looked, and would hide what is behind it
            return 0.01
        times = [term.reloaded_at + self._policy.poll_s, term.reconcile_timers.next_at(), *chores.values()]
        times += [self._scheduler.next_at()] if term.unscheduled else []
        times += [term.scheduled_at + self._policy.retry_interval_s] if term.schedule_soon else []
        times += [self._scheduler.deadlines.next_at(_with_deadline(term))] if term.with_deadline else []
        times += [since + term.views[job_id].retry_delay_s for job_id, since in term.recovering.items()]
        future = [time for time in times if now < time < float("inf")]
        return max(0.01, min(future) - now) if future else 0.01


def _is_fenced(attempt: AttemptView, over_for_s: float, policy: ControlPolicy) -> bool:
    """Nothing of it trains any more: its agent said so, the provider says so, or its lease has run out."""
    told = attempt.outcome is not None and attempt.lost is None
    return told or attempt.is_released or over_for_s > policy.silence_limit_for(attempt.offer)


def _with_deadline(term: LeaderTerm) -> list[JobView]:
    return [term.views[job_id] for job_id in sorted(term.with_deadline)]


async def _stop(tasks: Iterable[asyncio.Task[None]]) -> None:
    pending = [task for task in tasks if not task.done()]
    for task in pending:
        task.cancel()
    await asyncio.gather(*pending, return_exceptions=True)
