"""Decide whether to migrate a running job to a better offer. docs/explanation/planning.md has the rules.

A job can migrate if it runs on a paid machine, has measured its speed there, has saved a checkpoint in this
attempt, and has no deadline. `deadline.py` handles jobs with a deadline.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from heapq import nsmallest
from math import inf

from anygpu.control.accounting.forecasts import TEARDOWN_PAID_S, with_interruptions
from anygpu.control.accounting.money import format_dollars, remaining_budget
from anygpu.control.clock import Clock
from anygpu.control.policy import ControlPolicy
from anygpu.control.progress import checkpoint_interval_s, deadline_ms, startup_s, unsaved_s, used_time_s
from anygpu.control.reconcile.verdict import MIGRATION_REASON
from anygpu.control.record import EventRecorder
from anygpu.control.resume import can_resume
from anygpu.control.schedule.candidates import CandidateSource
from anygpu.control.schedule.compare import OfferComparer, TermsOf
from anygpu.control.schedule.deadline import has_fresh_checkpoint
from anygpu.control.schedule.queue import pool_job, queue_state
from anygpu.control.timers import TimerQueue
from anygpu.events.facts import FIRST_STEPS, BetterPlace
from anygpu.events.offers import Offer
from anygpu.events.types import BetterPlaceFound, Event, StopRequested
from anygpu.events.view import AttemptView, JobView
from anygpu.plan.analyse.findings import BLIND, Analysis
from anygpu.plan.offers.bill import Span
from anygpu.plan.offers.candidates import BackendTerms, Candidate
from anygpu.plan.offers.estimate import GB_PER_GIB, Estimator
from anygpu.plan.offers.migration import (
    CurrentRun,
    MigrationMode,
    MigrationOption,
    MigrationPolicy,
    RemainingTraining,
    evaluate_migration,
    is_worth_moving,
    machine_speed,
    savings_share,
    slowdown,
)
from anygpu.plan.offers.selection import Plan
from anygpu.plan.predict.step_time import StepWork
from anygpu.spec.jobspec import JobSpec
from anygpu.store.journal import Guard, Journal

MAX_CANDIDATES = 50  # only the most promising offers are estimated in full
A_GIB = 2**30
MIN_CHANGE = 0.25  # a gain must change by this share to be recorded again


def migration_mode(spec: JobSpec, rules: MigrationPolicy) -> MigrationMode:
    """Return the migration mode that the spec sets, or else the server's default."""
    return spec.placement.move or rules.mode


def eligible_attempt(view: JobView, rules: MigrationPolicy) -> AttemptView | None:
    """Return the current attempt if the job may migrate, else None.

    None also while something needed for the decision is unknown, such as the speed of the attempt.
    """
    live, told = view.live_attempt, view.prediction
    if (
        live is None
        or not live.hourly_microusd
        or live.training_at_ms is None
        or live.stop_reason is not None
    ):
        return None
    if view.cancel_requested or view.migrate_to or deadline_ms(view) is not None:
        return None
    if migration_mode(view.spec, rules) == "never" or view.spec.placement.strategy == "queue":
        return None
    if not can_resume(view):
        return None
    known = told is not None and told.basis == FIRST_STEPS and view.calibrated == live.number
    return (
        live
        if known and has_own_checkpoint(view, live) and len(past_migrations(view)) < rules.max_moves
        else None
    )


def has_own_checkpoint(view: JobView, attempt: AttemptView) -> bool:
    """Return whether this attempt has saved a checkpoint."""
    newest = view.newest_checkpoint
    return newest is not None and newest.attempt == attempt.number


def past_migrations(view: JobView) -> list[AttemptView]:
    """Return the attempts that were stopped for a migration."""
    return [attempt for attempt in view.attempts if attempt.stop_reason == MIGRATION_REASON]


def find_better_offer(
    view: JobView,
    plan: Plan,
    read: Analysis | None,
    now_ms: int,
    policy: ControlPolicy,
    terms_of: TermsOf,
) -> BetterPlace | None:
    """Return the best offer that is worth a migration. None if staying is best or the gain is uncertain."""
    rules, strategy = policy.migration, view.spec.placement.strategy
    live = eligible_attempt(view, rules)
    left = None if live is None else _remaining_work(view, live, read, now_ms, policy)
    if live is None or left is None:
        return None
    here = _current_run(live, now_ms, terms_of(live.offer.backend), view.spec.resources.nodes)
    candidates = _promising(view, live, left, _free_candidates(view, live, plan, read))
    weighed = [found for place in candidates if (found := evaluate_migration(here, left, place)) is not None]
    paying = [
        found
        for found in weighed
        if _is_allowed(view, found, now_ms, policy)
        and is_worth_moving(
            found, strategy, rules, preference_gain=_preference_gain(view, live, found.candidate.offer)
        )
    ]
    best = max(paying, key=lambda found: _rank(view, live, found), default=None)
    return None if best is None else _better_place(best, by_itself=migration_mode(view.spec, rules) == "act")


def migration_events(
    view: JobView, number: int, found: BetterPlace | None, now_ms: int, rules: MigrationPolicy
) -> list[Event]:
    """Return the events that follow from the search for a better offer.

    The result is recorded if it is news. A stop is requested if the job migrates by itself and has just saved
    a checkpoint.
    """
    live = eligible_attempt(view, rules)
    if live is None or live.number != number:
        return []
    news: list[Event] = (
        [BetterPlaceFound(attempt=number, better=found)] if is_news(view.better, found, rules) else []
    )
    if found is None or not found.by_itself or not has_fresh_checkpoint(view, now_ms):
        return news
    return [*news, StopRequested(attempt=number, reason=MIGRATION_REASON, message=describe_migration(found))]


def is_news(known: BetterPlace | None, found: BetterPlace | None, rules: MigrationPolicy) -> bool:
    """Return whether a better offer differs clearly from the recorded one: another offer, mode or gain."""
    if known is None or found is None:
        return known is not found
    if known.offer.key != found.offer.key or known.by_itself != found.by_itself:
        return True
    dearer = abs(known.saves_microusd - found.saves_microusd)
    later_s = abs(known.sooner_s - found.sooner_s)
    return (
        dearer > max(rules.min_saving_microusd, MIN_CHANGE * abs(known.saves_microusd))
        or later_s > max(rules.min_saving_s, MIN_CHANGE * abs(known.sooner_s))
    )  # fmt: skip


def describe_migration(found: BetterPlace) -> str:
    offer = found.offer
    where = " ".join(part for part in (offer.backend, offer.name, offer.region) if part)
    saves, sooner = found.saves_microusd, round(found.sooner_s / 60)
    money = f"for {format_dollars(abs(saves))} {'less' if saves >= 0 else 'more'}"
    return f"continues on {where} {money}, {abs(sooner)} min {'sooner' if sooner >= 0 else 'later'}"


def _current_run(live: AttemptView, now_ms: int, conditions: BackendTerms, nodes: int) -> CurrentRun:
    began_ms = live.started_at_ms or live.launching_at_ms
    return CurrentRun(
        offer=live.offer,
        price_microusd_per_hour=live.node_hourly_microusd,
        used_s=max(0, now_ms - began_ms) / 1000,
        egress_microusd_per_gib=conditions.egress_microusd_per_gib,
        nodes=nodes,
    )


def _remaining_work(
    view: JobView, live: AttemptView, read: Analysis | None, now_ms: int, policy: ControlPolicy
) -> RemainingTraining | None:
    """Return the remaining work of the job, or None if the job should be finished according to its prediction."""
    told, saved = view.prediction, view.newest_checkpoint
    if told is None:
        return None
    gone_s = (now_ms - view.attempts[0].launching_at_ms) / 1000
    slowed = with_interruptions(view, live, 3600.0) / 3600.0
    expected_s = (told.wall_s - gone_s - TEARDOWN_PAID_S) / slowed
    if expected_s <= 0:
        return None
    return RemainingTraining(
        work_s=Span(
            expected=expected_s,
            low=max(0.0, min(expected_s, told.wall_low_s - gone_s)),
            high=max(expected_s, (told.wall_high_s - gone_s) / slowed),
        ),
        unsaved_s=unsaved_s(view, now_ms),
        checkpoint_gib=saved.size / A_GIB if saved is not None else 0.0,
        setup_s=startup_s(view, policy),
        checkpoint_every_s=checkpoint_interval_s(view),
        stop_limit_s=policy.stop_limit_for(MIGRATION_REASON),
        step_work=_step_work(read),
    )


def _step_work(read: Analysis | None) -> StepWork | None:
    needs = read.characteristics if read is not None else None
    return needs.effort.work if needs is not None and needs.effort is not None else None


def _free_candidates(view: JobView, live: AttemptView, plan: Plan, read: Analysis | None) -> list[Candidate]:
    """Return the offers that are free and can run the job.

    The current offer is left out, and so are offers that the job has migrated away from.
    """
    been = {attempt.offer.key for attempt in (*past_migrations(view), live)}
    question = Estimator(spec=view.spec, analysis=read)
    free = [
        ranked.candidate
        for ranked in plan.ranked
        if not ranked.rejection
        and not ranked.wait_reason
        and not ranked.avoided
        and ranked.offer.key not in been
    ]
    return [
        each
        for each in free
        if _has_memory(view, live.offer, each.offer, read) and not question.unsupported_gpu_reason(each.offer)
    ]


def _has_memory(view: JobView, here: Offer, there: Offer, read: Analysis | None) -> bool:
    """Return whether the offer has enough GPU memory.

    Enough is as much as the current offer has, or as much as the job requests or needs.
    """
    if not here.gpu_count or there.gpu_memory_gib >= here.gpu_memory_gib:
        return True
    asked = view.spec.resources.gpu.memory_gib if view.spec.resources.gpu else None
    if asked:
        return asked <= there.gpu_memory_gib
    needs = read.characteristics if read is not None else None
    known = needs is not None and needs.gpu_memory_gb.confidence > BLIND
    return needs is not None and known and needs.gpu_memory_range_gb[1] <= there.gpu_memory_gib * GB_PER_GIB


def _promising(
    view: JobView, live: AttemptView, left: RemainingTraining, candidates: Sequence[Candidate]
) -> list[Candidate]:
    """Return the best `MAX_CANDIDATES` offers by a quick estimate from speed and price."""

    def promise(candidate: Candidate) -> tuple[float, float]:
        offer = candidate.offer
        slower = slowdown(machine_speed(offer), machine_speed(live.offer), left.step_work)
        if slower is None:
            return inf, inf
        times = slower.expected
        cost = times * offer.price_microusd_per_hour / max(1, live.node_hourly_microusd)
        match view.spec.placement.strategy:
            case "fastest":
                return 0.0, times
            case "balanced":
                return 0.0, times + cost
            case "preferred":
                return -_preference_gain(view, live, offer), cost
            case _:
                return 0.0, cost

    return nsmallest(MAX_CANDIDATES, candidates, key=promise)


def _preference_gain(view: JobView, live: AttemptView, offer: Offer) -> int:
    """Return how many positions earlier the offer's backend is in the job's list of preferred backends.

    Negative if the list has the offer's backend after the current backend of the job.
    """
    order = [*view.spec.placement.fallbacks]
    rank = {name: at for at, name in enumerate(order)}
    return rank.get(live.offer.backend, len(order)) - rank.get(offer.backend, len(order))


def _is_allowed(view: JobView, found: MigrationOption, now_ms: int, policy: ControlPolicy) -> bool:
    """Return whether the migration is allowed.

    Even in the worst case it must stay within budget, time limit and machine lifetime.
    """
    offer, worst, budget = found.candidate.offer, found.worst_case, remaining_budget(view, now_ms)
    limit_s = policy.time_limit_s(view.spec, offer)
    in_time = limit_s is None or used_time_s(view.attempts, now_ms) + worst.machine_s <= limit_s
    return (
        in_time
        and worst.machine_s <= offer.max_run_or_inf_s
        and (budget is None or worst.cost_microusd <= budget)
    )


def _rank(view: JobView, live: AttemptView, found: MigrationOption) -> tuple[int, float, str, str]:
    strategy, offer = view.spec.placement.strategy, found.candidate.offer
    nearer = _preference_gain(view, live, offer) if strategy == "preferred" else 0
    return nearer, savings_share(found.expected, strategy), offer.backend, offer.name


def _better_place(found: MigrationOption, *, by_itself: bool) -> BetterPlace:
    return BetterPlace(
        offer=found.candidate.offer,
        saves_microusd=round(found.expected.cost_microusd),
        saves_low_microusd=round(found.saves_low_microusd),
        sooner_s=round(found.expected.time_s, 1),
        sooner_low_s=round(found.sooner_low_s, 1),
        by_itself=by_itself,
    )


MIGRATION_BATCH = 50  # jobs per pass
PASS_INTERVAL_S = 30.0  # between passes, so that jobs share offer requests


@dataclass(slots=True)
class _Watched:
    """When an attempt is checked next, and whether it is about to migrate."""

    attempt: int
    not_before: float
    stage: object = None  # the prediction at the last check; a new prediction makes the job due
    wants_to_move: bool = False  # migrate after the next checkpoint


class MigrationTimers:
    """Times at which jobs are checked for a better offer.

    A job is due after a new prediction, at a regular interval, or when a job that is to migrate has saved a
    checkpoint.
    """

    def __init__(self, clock: Clock, rules: MigrationPolicy) -> None:
        self._clock, self._rules = clock, rules
        self._watched: dict[str, _Watched] = {}
        self._timers: TimerQueue[str] = TimerQueue()
        self._passed_at = float("-inf")

    def update(self, view: JobView) -> None:
        """Update the time of the next check from the newest state of a job."""
        live = eligible_attempt(view, self._rules)
        if live is None:
            self.forget(view.id)
            return
        watched, now = self._watch(view, live), self._clock.monotonic()
        due = self._timers.at(view.id)
        if watched.stage != view.prediction:
            watched.stage = view.prediction
            due = min(due, max(now, self._passed_at + PASS_INTERVAL_S))
        if watched.wants_to_move and has_fresh_checkpoint(view, self._clock.wall_ms()):
            due = now
        self._timers.set(view.id, max(due, watched.not_before))

    def forget(self, job_id: str) -> None:
        self._watched.pop(job_id, None)
        self._timers.drop(job_id)

    def next_at(self) -> float:
        return self._timers.next_at()

    def due(self) -> list[str]:
        """Return the ids of the jobs to check now, those first that have been due for longest."""
        now = self._clock.monotonic()
        self._passed_at = now
        return self._timers.due(now, MIGRATION_BATCH)

    def record_check(self, view: JobView, *, found: bool) -> None:
        """Record that the job was checked, and whether the check found a better offer."""
        watched = self._watched.get(view.id)
        if watched is not None:
            self._timers.set(view.id, self._clock.monotonic() + self._rules.check_every_s)
            watched.wants_to_move = found and migration_mode(view.spec, self._rules) == "act"

    def _watch(self, view: JobView, live: AttemptView) -> _Watched:
        """Start watching an attempt. If the attempt follows a migration, its first check is delayed."""
        watched = self._watched.get(view.id)
        if watched is None or watched.attempt != live.number:
            now = self._clock.monotonic()
            not_before = now + self._rules.min_interval_s if past_migrations(view) else now
            watched = self._watched[view.id] = _Watched(live.number, not_before)
            self._timers.drop(view.id)
        return watched


class MigrationChecker:
    """Compares the machines of running jobs with other offers, and records or starts migrations."""

    def __init__(
        self,
        journal: Journal,
        offers: CandidateSource,
        timers: MigrationTimers,
        comparer: OfferComparer,
        clock: Clock,
        policy: ControlPolicy,
    ) -> None:
        self._journal = journal
        self._recorder = EventRecorder(journal, clock)
        self._offers = offers
        self._timers = timers
        self._comparer = comparer
        self._clock = clock
        self._policy = policy

    async def run(self, views: Sequence[JobView], running: Sequence[JobView], guard: Guard) -> list[JobView]:
        """Compare the machine of each running job with other offers. Return the jobs that changed.

        An offer that one job migrates to is not free for the other jobs.
        """
        now_ms = self._clock.wall_ms()
        candidates = self._offers.candidates(views)
        for view in views:
            candidates.reserve_target(view)
        now = queue_state(views, await self._journal.usages(), self._policy, now_ms)
        changed = []
        for view in running:
            # Recorded before the check, so that a job whose check fails is not the first in the next pass.
            self._timers.record_check(view, found=False)
            own_waits = now.over_quota(pool_job(view, now_ms))
            # The limit on paid attempts is ignored: the current attempt will have ended before the next starts.
            there = replace(await candidates.constraints(view, now_ms, own_waits), paid_wait_reason="")
            after = await self._check(view, await candidates.fit(view, there), guard)
            if after is not None:
                changed.append(after)
                candidates.reserve_target(after)
        return changed

    async def _check(self, view: JobView, plan: Plan, guard: Guard) -> JobView | None:
        live, now_ms, rules = view.live_attempt, self._clock.wall_ms(), self._policy.migration
        read, terms_of = await self._comparer.analysis(view), self._comparer.terms_of
        found = find_better_offer(view, plan, read, now_ms, self._policy, terms_of)
        if found is not None:
            self._timers.record_check(view, found=True)
        number = live.number if live is not None else 0
        return await self._recorder.record(
            view, partial(migration_events, number=number, found=found, now_ms=now_ms, rules=rules), guard
        )
