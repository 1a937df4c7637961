"""Assemble the control loop from stores, backends and a clock."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from anygpu.backends.contract import Backend
from anygpu.backends.health import NO_HEALTH_RECORDER, HealthRecorder
from anygpu.control.accounting.forecasts import Forecasts
from anygpu.control.accounting.meters import MeterChecker
from anygpu.control.agents.tickets import Tickets
from anygpu.control.clock import Clock, Randomness, WakeSignal
from anygpu.control.policy import ControlPolicy
from anygpu.control.reconcile.attempt import AttemptReconciler
from anygpu.control.schedule.candidates import CandidateSource, IsVisible
from anygpu.control.schedule.compare import OfferComparer, PlanExplainer
from anygpu.control.schedule.deadline import DeadlineChecker, DeadlineTracker
from anygpu.control.schedule.migration import MigrationChecker, MigrationTimers
from anygpu.control.schedule.scheduler import Scheduler
from anygpu.control.supervisor import OnChange, Report, Supervisor
from anygpu.control.sweep import OrphanLedger, Sweeper
from anygpu.control.tasks import (
    DeadlineTask,
    ExplainTask,
    ForecastTask,
    MeterTask,
    MigrationTask,
    ScheduleTask,
    SweepTask,
)
from anygpu.control.term import LeaderTerm, PeriodicTask
from anygpu.store.blobs.checkpoints import Checkpoints
from anygpu.store.journal import Journal
from anygpu.store.reports import Reports


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlServices:
    """The stores, backends and other interfaces that the control loop uses."""

    journal: Journal
    reports: Reports
    checkpoints: Checkpoints
    backends: Mapping[str, Backend]
    comparer: OfferComparer
    tickets: Tickets
    clock: Clock
    randomness: Randomness
    wake: WakeSignal
    policy: ControlPolicy
    agent_url: Callable[[], str]
    report: Report
    agent_urls: Callable[[], Sequence[str]] = lambda: ()  # of all servers that share the database
    is_visible: IsVisible = lambda backend, organisation: True
    health: HealthRecorder = NO_HEALTH_RECORDER
    further_tasks: Callable[[], Sequence[PeriodicTask]] = (
        lambda: ()
    )  # of other packages, created for each term


def assemble_supervisor(services: ControlServices, holder: str) -> Supervisor:
    """Assemble the supervisor (the control loop) of one process. `holder` is the name of the process in the lease."""
    return Supervisor(
        services.journal,
        lambda: _new_reconciler(services),
        _TaskFactory(services),
        services.clock,
        services.wake,
        services.policy,
        holder,
        services.report,
    )


class _TaskFactory:
    """Creates the periodic tasks whenever this process gets the lease, that is, becomes the one that controls the jobs.

    The factory also holds state that is kept when the lease is lost: cooldowns, spot availability, known orphans.
    """

    def __init__(self, services: ControlServices) -> None:
        journal, clock, policy = services.journal, services.clock, services.policy
        self._services = services
        self._comparer = services.comparer
        self._offers = CandidateSource(
            services.backends, self._comparer, clock, policy, services.is_visible, services.health
        )
        self._deadlines = DeadlineTracker(clock, policy)
        self._migrations = MigrationTimers(clock, policy.migration)
        self._sweeper = Sweeper(services.backends, clock, policy, services.report)
        self._scheduler = Scheduler(
            journal,
            self._offers,
            self._deadlines,
            services.checkpoints,
            self._comparer,
            services.tickets,
            clock,
            policy,
        )

    def __call__(
        self, term: LeaderTerm, update: OnChange, reconcile_soon: OnChange
    ) -> Sequence[PeriodicTask]:
        journal, clock, policy = self._services.journal, self._services.clock, self._services.policy
        explainer = PlanExplainer(journal, self._offers.offers, self._comparer, clock)
        deadlines = DeadlineChecker(journal, self._offers, self._deadlines, clock)
        migrations = MigrationChecker(journal, self._offers, self._migrations, self._comparer, clock, policy)
        meters = MeterChecker(journal, self._services.backends, clock, policy)
        forecasts = Forecasts(journal, self._services.reports, clock)
        return [
            ScheduleTask(term, self._scheduler, clock, policy, reconcile_soon),
            ExplainTask(term, explainer, clock, policy, update),
            DeadlineTask(term, deadlines, self._deadlines, reconcile_soon),
            MigrationTask(term, migrations, self._migrations, clock, reconcile_soon),
            SweepTask(term, self._sweeper, OrphanLedger(journal, clock), clock, policy),
            MeterTask(term, meters, clock, self._services.report),
            ForecastTask(term, forecasts, clock),
            *self._services.further_tasks(),
        ]


def _new_reconciler(services: ControlServices) -> AttemptReconciler:
    return AttemptReconciler(
        services.journal,
        services.reports,
        services.backends,
        services.tickets,
        services.clock,
        services.randomness,
        services.policy,
        services.agent_url,
        services.agent_urls,
        services.health,
    )
