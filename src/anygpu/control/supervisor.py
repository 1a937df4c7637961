"""The control loop: hold the lease, reload jobs, reconcile due jobs, start periodic tasks, sleep, repeat.

One repetition is called a round. All durable state is in the journal, so the process may be killed at any point.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from anygpu.control.clock import Clock, WakeSignal
from anygpu.control.policy import ControlPolicy
from anygpu.control.reconcile.attempt import AttemptReconciler
from anygpu.control.term import LeaderTerm, PeriodicTask
from anygpu.control.timers import NEVER
from anygpu.errors import JobDamaged, LeaseLost, NotFound
from anygpu.events.view import JobView
from anygpu.store.journal import Guard, Journal
from anygpu.store.scope import SYSTEM

LEADER = "control"
MIN_SLEEP_S = 0.01
NO_JOB = ""  # wakes the loop without naming a job: a due time has changed
Report = Callable[[str, Exception], None]
OnChange = Callable[[JobView], None]
NewTasks = Callable[[LeaderTerm, OnChange, OnChange], Sequence[PeriodicTask]]  # term, update, reconcile_soon


class Supervisor:
    """Runs the control loop.

    Every control process has a supervisor; only the one that holds the lease acts.
    """

    def __init__(
        self,
        journal: Journal,
        new_reconciler: Callable[[], AttemptReconciler],
        new_tasks: NewTasks,
        clock: Clock,
        wake: WakeSignal,
        policy: ControlPolicy,
        holder: str,
        report: Report,
    ) -> None:
        self._journal = journal
        self._new_reconciler = new_reconciler
        self._new_tasks = new_tasks
        self._clock = clock
        self._wake = wake
        self._policy = policy
        self._holder = holder
        self._report = report

    async def run(self) -> None:
        """Control the jobs whenever this process can get the lease. Never returns; cancel the coroutine to stop.

        Then call `release_lease`, so that another process takes over at once.
        """
        while True:
            term = self._new_term(await self._acquire_lease())
            try:
                await self._run_term(term)
            except LeaseLost as error:
                self._report(
                    "another server process now controls the jobs; this one only answers requests", error
                )
            finally:
                await _stop_tasks(term)

    def _new_term(self, guard: Guard) -> LeaderTerm:
        now = self._clock.monotonic()
        term = LeaderTerm(guard=guard, renewed_at=now, reconciler=self._new_reconciler())
        update, reconcile_soon = partial(self._update, term), partial(self._reconcile_soon, term)
        term.tasks += self._new_tasks(term, update, reconcile_soon)
        return term

    async def _acquire_lease(self) -> Guard:
        while True:
            guard = await self._try_acquire()
            if guard is not None:
                return guard
            # A leader that stops releases the lease, so a short interval means a quick take-over.
            await self._clock.sleep(min(self._policy.leader_ttl_s / 3, self._policy.poll_s))

    async def release_lease(self) -> None:
        """Let the lease expire now. Call it after `run` has ended: this process must write nothing any more."""
        try:
            await self._journal.acquire(LEADER, self._holder, ttl_s=0)
        except Exception as error:  # noqa: BLE001  the lease expires by itself
            self._report("the lease of the control loop was not released; it expires by itself", error)

    async def _try_acquire(self) -> Guard | None:
        try:
            return await self._journal.acquire(LEADER, self._holder, ttl_s=self._policy.leader_ttl_s)
        except Exception as error:  # noqa: BLE001  a store may fail in ways of its own
            self._report("the database did not answer; it is asked again", error)
            return None

    async def _run_term(self, term: LeaderTerm) -> None:
        self._start_task(term, "renewing the lease", lambda: self._renew_lease(term))
        while not term.lease_lost:
            try:
                await self._run_round(term)
            except LeaseLost:
                raise
            except Exception as error:  # noqa: BLE001  one bad round must not end the loop
                self._report("a round of the control loop failed and will be tried again", error)
                term.reloaded_at = float("-inf")
                await self._clock.sleep(self._policy.retry_interval_s)
        raise LeaseLost()

    async def _renew_lease(self, term: LeaderTerm) -> None:
        """Renew the lease concurrently with the rounds, so that slow provider calls do not let it expire."""
        while not term.lease_lost:
            await self._clock.sleep(self._policy.leader_ttl_s / 3)
            started = self._clock.monotonic()
            guard = await self._try_acquire()
            if guard is not None and guard.epoch == term.guard.epoch:
                term.renewed_at = started
            elif guard is not None or self._clock.monotonic() - term.renewed_at > self._policy.leader_ttl_s:
                raise LeaseLost()

    async def _run_round(self, term: LeaderTerm) -> None:
        await self._reload_jobs(term)
        self._start_due_tasks(term, upkeep=False)
        self._start_reconciling(term)
        self._start_due_tasks(term, upkeep=True)
        for job_id in sorted(await self._wake.wait(self._sleep_s(term))):
            if job_id != NO_JOB:
                await self._refresh(term, job_id)

    def _start_due_tasks(self, term: LeaderTerm, *, upkeep: bool) -> None:
        for task in term.tasks:
            if task.upkeep is upkeep and task.is_due():
                self._start_task(term, task.name, task.run)

    def _start_task(self, term: LeaderTerm, name: str, run: Callable[[], Awaitable[None]]) -> None:
        """Start a periodic task concurrently with the rounds, because the task may wait for providers.

        A task that still runs is not started twice.
        """
        if name in term.running:
            term.rerun.add(name)
        else:
            term.running[name] = asyncio.create_task(self._run_task(term, name, run))

    async def _run_task(self, term: LeaderTerm, name: str, run: Callable[[], Awaitable[None]]) -> None:
        try:
            await run()
        except LeaseLost:
            term.lease_lost = True
            self._wake.set(NO_JOB)
        except Exception as error:  # noqa: BLE001
            self._report(f"{name} failed and will be tried again", error)
            term.reloaded_at = float("-inf")
            await self._clock.sleep(self._policy.retry_interval_s)
        finally:
            term.running.pop(name, None)
        if name in term.rerun:
            term.rerun.discard(name)
            self._wake.set(NO_JOB)

    async def _reload_jobs(self, term: LeaderTerm) -> None:
        """Read all live jobs every `poll_s`, in case a wake-up was lost."""
        now = self._clock.monotonic()
        if now - term.reloaded_at < self._policy.poll_s:
            return
        term.reloaded_at = now
        live = {view.id: view for view in await self._journal.live()}
        for job_id in [*term.damaged.keys() - live.keys()]:
            del term.damaged[job_id]
        for job_id in [*term.views.keys() - live.keys()]:
            self._forget(term, job_id)
        for view in live.values():
            self._update(term, view)

    async def _refresh(self, term: LeaderTerm, job_id: str) -> None:
        """Handle the wake-up for one job.

        If the job will be reconciled in this round, it is not read here, because reconciling reads it.
        """
        if job_id not in term.views or job_id in term.reconciling:
            try:
                self._update(term, await self._journal.view(SYSTEM, job_id))
            except NotFound:
                return
        if job_id in term.views:
            self._reconcile_now(term, job_id)

    def _update(self, term: LeaderTerm, view: JobView) -> None:
        """Replace the known state (view) of a job, unless a newer one is already known."""
        if view.damaged:
            self._set_aside(term, view)
            return
        term.damaged.pop(view.id, None)
        known = term.views.get(view.id)
        if known is not None and known.position > view.position:
            return
        term.changed = term.changed or known is None or known.position != view.position
        term.views[view.id] = view
        for task in term.tasks:
            task.update(view)
        if view.id not in term.reconcile_timers and view.id not in term.reconciling:
            term.reconcile_timers.set(view.id, self._clock.monotonic())
        if view.is_terminal:
            self._forget(term, view.id)

    def _set_aside(self, term: LeaderTerm, view: JobView) -> None:
        """Stop managing a job whose events are damaged. The sweeper ends its machines after a while."""
        self._forget(term, view.id)
        if view.id not in term.damaged and not view.is_terminal:
            term.damaged[view.id] = self._clock.monotonic()
            hours = self._policy.damaged_grace_s / 3600
            self._report(
                f"the stored events of job {view.id} are damaged, so the job is no longer managed; its machines "
                f"are ended in {hours:g} hours, unless the database is restored before",
                JobDamaged(view.damaged),
            )

    def _forget(self, term: LeaderTerm, job_id: str) -> None:
        term.changed = term.views.pop(job_id, None) is not None or term.changed
        term.reconcile_timers.drop(job_id)
        for task in term.tasks:
            task.forget(job_id)

    def _reconcile_soon(self, term: LeaderTerm, view: JobView) -> None:
        self._update(term, view)
        self._reconcile_now(term, view.id)
        self._wake.set(NO_JOB)

    def _reconcile_now(self, term: LeaderTerm, job_id: str) -> None:
        if job_id in term.reconciling:
            term.rerun.add(job_id)  # the current run started before this change
        else:
            term.reconcile_timers.set(job_id, self._clock.monotonic())

    def _start_reconciling(self, term: LeaderTerm) -> None:
        for job_id in term.reconcile_timers.due(self._clock.monotonic()):
            term.reconcile_timers.drop(job_id)
            term.reconciling[job_id] = asyncio.create_task(self._reconcile(term, job_id))

    async def _reconcile(self, term: LeaderTerm, job_id: str) -> None:
        pause_s = self._policy.retry_interval_s
        try:
            view, pause_s = await term.reconciler.reconcile(job_id, term.guard)
            self._update(term, view)
            for task in term.tasks:
                task.after_reconcile(view)
            if view.is_terminal:
                term.reconciler.forget(view)
        except LeaseLost:
            term.lease_lost = True
        except Exception as error:  # noqa: BLE001  one bad job must not take the others down
            self._report(f"reconciling job {job_id} failed and will be tried again", error)
        finally:
            term.reconciling.pop(job_id, None)
        if job_id in term.views:
            hurry = job_id in term.rerun
            term.reconcile_timers.set(job_id, self._clock.monotonic() + (0.0 if hurry else pause_s))
        term.rerun.discard(job_id)
        self._wake.set(NO_JOB)

    def _sleep_s(self, term: LeaderTerm) -> float:
        """Return the seconds until the loop has to run again, unless a wake-up comes earlier."""
        now = self._clock.monotonic()
        times = {task.name: task.next_at() for task in term.tasks}
        idle = [at for name, at in times.items() if name not in term.running]
        reload_at = term.reloaded_at + self._policy.poll_s
        if min([reload_at, term.reconcile_timers.next_at(), *idle]) <= now:  # became due during this round
            return MIN_SLEEP_S
        rounds = [reload_at, term.reconcile_timers.next_at(), *times.values()]
        next_at = min((at for at in rounds if now < at < NEVER), default=now)
        return max(MIN_SLEEP_S, next_at - now)


async def _stop_tasks(term: LeaderTerm) -> None:
    tasks = [*term.reconciling.values(), *term.running.values()]
    pending = [task for task in tasks if not task.done()]
    for task in pending:
        task.cancel()
    await asyncio.gather(*pending, return_exceptions=True)
