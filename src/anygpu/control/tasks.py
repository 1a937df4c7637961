"""The periodic tasks of the leading control process: when each task is due, and for which jobs it runs."""

from collections.abc import Callable, Iterable

from anygpu.control.accounting.forecasts import Forecasts
from anygpu.control.accounting.meters import MeterChecker
from anygpu.control.clock import Clock
from anygpu.control.policy import ControlPolicy
from anygpu.control.schedule.compare import EXPLAIN_BATCH, PlanExplainer, lacks_plan
from anygpu.control.schedule.deadline import DeadlineChecker, DeadlineTracker, has_deadline
from anygpu.control.schedule.migration import MigrationChecker, MigrationTimers
from anygpu.control.schedule.queue import is_waiting
from anygpu.control.schedule.scheduler import Scheduler
from anygpu.control.sweep import OrphanLedger, Sweeper
from anygpu.control.term import LeaderTerm, PeriodicTask
from anygpu.control.timers import NEVER, TimerQueue
from anygpu.events.view import AttemptView, JobView

EXPLAIN_RETRY_S = 60.0  # how soon a failed comparison is tried again
OnChange = Callable[[JobView], None]
Report = Callable[[str, Exception], None]


class ScheduleTask(PeriodicTask):
    """Schedules waiting jobs: at once when a job has changed, otherwise every `retry_interval_s`."""

    name = "scheduling"

    def __init__(
        self, term: LeaderTerm, scheduler: Scheduler, clock: Clock, policy: ControlPolicy, on_change: OnChange
    ) -> None:
        self._term = term
        self._scheduler = scheduler
        self._clock = clock
        self._policy = policy
        self._on_change = on_change
        self._waiting: set[str] = set()
        self._recovering: dict[str, float] = {}  # job -> start of recovery, monotonic
        self._scheduled_at = float("-inf")
        self._too_soon = False  # whether the last round came too soon after the last pass

    def update(self, view: JobView) -> None:
        if is_waiting(view):
            self._waiting.add(view.id)
        else:
            self._waiting.discard(view.id)
        if view.recovering_since_ms is None:
            self._recovering.pop(view.id, None)
        else:
            self._recovering.setdefault(view.id, self._clock.monotonic())

    def forget(self, job_id: str) -> None:
        self._waiting.discard(job_id)
        self._recovering.pop(job_id, None)

    def is_due(self) -> bool:
        if not self._waiting:
            return False
        self._too_soon = not self._term.changed and self._clock.monotonic() < self._allowed_at()
        return not self._too_soon

    def next_at(self) -> float:
        now = self._clock.monotonic()
        times = [since + self._term.views[job_id].retry_delay_s for job_id, since in self._recovering.items()]
        times += [self._scheduler.next_at()] if self._waiting else []
        times += [self._allowed_at()] if self._too_soon else []
        return min((time for time in times if time > now), default=NEVER)

    async def run(self) -> None:
        self._term.changed, self._scheduled_at = False, self._clock.monotonic()
        views = [*self._term.views.values()]
        ready = [view for view in views if view.id in self._waiting and self._can_start(view)]
        if ready:
            _apply(await self._scheduler.run(views, ready, self._term.guard), self._on_change)

    def _allowed_at(self) -> float:
        return self._scheduled_at + self._policy.retry_interval_s

    def _can_start(self, view: JobView) -> bool:
        """Return whether the job may get a new attempt.

        True if the pause before a retry has passed and the last attempt can save nothing more.
        """
        if view.newest_attempt is None:
            return True
        now = self._clock.monotonic()
        ended_s = self._term.reconciler.seconds_since_end(view)
        waited_s = now - self._recovering.get(view.id, now)
        return _is_fenced(view.newest_attempt, ended_s, self._policy) and waited_s >= view.retry_delay_s


class ExplainTask(PeriodicTask):
    """Compares offers for jobs that started without a comparison, so that `anygpu explain` has a plan to show."""

    name = "comparing offers"

    def __init__(
        self,
        term: LeaderTerm,
        explainer: PlanExplainer,
        clock: Clock,
        policy: ControlPolicy,
        on_change: OnChange,
    ) -> None:
        self._term = term
        self._explainer = explainer
        self._clock = clock
        self._policy = policy
        self._on_change = on_change
        self._timers: TimerQueue[str] = TimerQueue()

    def update(self, view: JobView) -> None:
        if not lacks_plan(view):
            self._timers.drop(view.id)
        elif view.id not in self._timers:
            self._timers.set(view.id, self._clock.monotonic() + self._policy.explain_after_s)

    def forget(self, job_id: str) -> None:
        self._timers.drop(job_id)

    def is_due(self) -> bool:
        return self._timers.next_at() <= self._clock.monotonic()

    def next_at(self) -> float:
        return self._timers.next_at()

    async def run(self) -> None:
        now = self._clock.monotonic()
        due = self._timers.due(now, EXPLAIN_BATCH)
        for job_id in due:
            self._timers.set(job_id, now + EXPLAIN_RETRY_S)
        views = [self._term.views[job_id] for job_id in due]
        _apply(await self._explainer.run(views, self._term.guard), self._on_change)


class DeadlineTask(PeriodicTask):
    """Moves running jobs with a deadline from spot to on-demand in time, and back when that is cheaper."""

    name = "checking deadlines"

    def __init__(
        self, term: LeaderTerm, checker: DeadlineChecker, tracker: DeadlineTracker, on_change: OnChange
    ) -> None:
        self._term = term
        self._checker = checker
        self._tracker = tracker
        self._on_change = on_change
        self._job_ids: set[str] = set()

    def update(self, view: JobView) -> None:
        if has_deadline(view):
            self._job_ids.add(view.id)

    def forget(self, job_id: str) -> None:
        self._job_ids.discard(job_id)

    def is_due(self) -> bool:
        return bool(self._tracker.due(self._views()))

    def next_at(self) -> float:
        return self._tracker.next_at(self._views())

    async def run(self) -> None:
        self._tracker.keep_only(self._job_ids)
        due = self._tracker.due(self._views())
        changed = await self._checker.run([*self._term.views.values()], due, self._term.guard)
        _apply(changed, self._on_change)

    def _views(self) -> list[JobView]:
        return [self._term.views[job_id] for job_id in sorted(self._job_ids)]


class MigrationTask(PeriodicTask):
    """Finds better offers for running jobs, and migrates the jobs that may migrate."""

    name = "checking migrations"

    def __init__(
        self,
        term: LeaderTerm,
        checker: MigrationChecker,
        timers: MigrationTimers,
        clock: Clock,
        on_change: OnChange,
    ) -> None:
        self._term = term
        self._checker = checker
        self._timers = timers
        self._clock = clock
        self._on_change = on_change

    def update(self, view: JobView) -> None:
        self._timers.update(view)

    def forget(self, job_id: str) -> None:
        self._timers.forget(job_id)

    def is_due(self) -> bool:
        return self._timers.next_at() <= self._clock.monotonic()

    def next_at(self) -> float:
        return self._timers.next_at()

    async def run(self) -> None:
        due, views = self._timers.due(), self._term.views
        for job_id in due:
            if job_id not in views:
                self._timers.forget(job_id)
        running = [views[job_id] for job_id in due if job_id in views]
        _apply(await self._checker.run([*views.values()], running, self._term.guard), self._on_change)


class SweepTask(PeriodicTask):
    """Terminates machines that no attempt owns, and records their cost."""

    name = "sweeping"
    upkeep = True

    def __init__(
        self, term: LeaderTerm, sweeper: Sweeper, ledger: OrphanLedger, clock: Clock, policy: ControlPolicy
    ) -> None:
        self._term = term
        self._sweeper = sweeper
        self._ledger = ledger
        self._clock = clock
        self._policy = policy
        self._swept_at = float("-inf")

    def is_due(self) -> bool:
        return self._clock.monotonic() - self._swept_at >= self._policy.sweep_every_s

    async def run(self) -> None:
        self._swept_at = self._clock.monotonic()
        await self._sweeper.run([*self._term.views.values()], self._term.damaged)
        for orphan in await self._sweeper.collect_ended():
            await self._ledger.record(orphan, self._term.guard)


class MeterTask(PeriodicTask):
    """Compares the recorded costs with what the providers have charged."""

    name = "reading meters"
    upkeep = True

    def __init__(self, term: LeaderTerm, checker: MeterChecker, clock: Clock, report: Report) -> None:
        self._term, self._checker, self._clock, self._report = term, checker, clock, report

    def after_reconcile(self, view: JobView) -> None:
        self._checker.update(view)

    def is_due(self) -> bool:
        return self._checker.next_at() <= self._clock.monotonic()

    async def run(self) -> None:
        await self._checker.run(self._term.guard, self._report)


class ForecastTask(PeriodicTask):
    """Predicts the time and cost of running jobs from the steps they report."""

    name = "forecasting"
    upkeep = True

    def __init__(self, term: LeaderTerm, forecasts: Forecasts, clock: Clock) -> None:
        self._term, self._forecasts, self._clock = term, forecasts, clock

    def after_reconcile(self, view: JobView) -> None:
        self._forecasts.update(view)

    def is_due(self) -> bool:
        return self._forecasts.next_at() <= self._clock.monotonic()

    async def run(self) -> None:
        await self._forecasts.run(self._term.guard)


def _apply(changed: Iterable[JobView], on_change: OnChange) -> None:
    for view in changed:
        on_change(view)


def _is_fenced(attempt: AttemptView, ended_s: float, policy: ControlPolicy) -> bool:
    """Return whether the attempt has certainly stopped training, so that another one may start.

    True if the attempt has reported its end, its machine is gone, or its lease has expired.
    """
    reported = attempt.outcome is not None and attempt.lost is None
    return reported or attempt.is_released or ended_s > policy.silence_limit_for(attempt.offer)
