"""Give waiting jobs an offer: collect candidates, plan, and write the intent to launch, which is then reconciled."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from anygpu.backends.contract import Backend
from anygpu.control.agents.tickets import Tickets, ticket_sha256
from anygpu.control.clock import Clock
from anygpu.control.ids import attempt_name
from anygpu.control.money import budget_failure, remaining_budget
from anygpu.control.policy import ControlPolicy
from anygpu.control.schedule.candidates import Candidates, IsVisible
from anygpu.control.schedule.compare import JobComparison, OfferComparer, PlanExplainer, with_prediction
from anygpu.control.schedule.cooldown import Cooldown
from anygpu.control.schedule.deadline import DeadlineTracker, has_deadline, move_events
from anygpu.control.schedule.migration import (
    MigrationTimers,
    find_better_offer,
    migration_events,
    target_offer,
)
from anygpu.control.schedule.offer_cache import OfferCache
from anygpu.control.schedule.preemption import WaitingJobs, choose_preemptions
from anygpu.control.schedule.queue import (
    PoolJobCache,
    QueueState,
    has_waited_too_long,
    in_queue_order,
    is_waiting,
    pool_job,
    queue_state,
)
from anygpu.errors import BlobCorrupt, BlobMissing
from anygpu.events.facts import CheckpointRef
from anygpu.events.offers import Offer
from anygpu.events.types import AttemptLaunching, CheckpointRejected, Event, JobFailed, JobWaited
from anygpu.events.view import JobView
from anygpu.plan.offers.fit import JobConstraints, Plan, has_resume_path
from anygpu.store.blobs.checkpoints import Checkpoints
from anygpu.store.journal import Guard, Journal
from anygpu.store.scope import SYSTEM

DecideEvents = Callable[[JobView], list[Event]]


class Scheduler:
    """One pass gives every waiting job either an intent to launch or the reason why it waits."""

    def __init__(
        self,
        journal: Journal,
        backends: Mapping[str, Backend],
        checkpoints: Checkpoints,
        comparer: OfferComparer,
        tickets: Tickets,
        clock: Clock,
        policy: ControlPolicy,
        visible: IsVisible = lambda backend, organisation: True,
    ) -> None:
        self._journal = journal
        self._visible = visible
        self._offer_cache = OfferCache(backends, clock, policy)
        self._cooldown = Cooldown(clock, policy)
        self.deadlines = DeadlineTracker(clock, policy)
        self.migrations = MigrationTimers(clock, policy.migration)
        self._checkpoints = checkpoints
        self._tickets = tickets
        self._clock = clock
        self._policy = policy
        self._comparer = comparer
        self.explainer = PlanExplainer(journal, self.offers, comparer, clock)
        self._pool_jobs = PoolJobCache()
        self._preempt_again_at = float("inf")

    def next_at(self) -> float:
        """When a job that waits may have more luck, with nothing to tell of it."""
        return min(self._cooldown.next_at(), self._preempt_again_at)

    async def offers(self, view: JobView) -> list[Offer]:
        """What there is for the job now."""
        found = await self._offer_cache.offers(view.spec.resources)
        return [offer for offer in found if self._visible(offer.backend, view.organisation)]

    async def run(self, views: Sequence[JobView], ready: Sequence[JobView], guard: Guard) -> list[JobView]:
        """Place what can be placed among `ready`; `views` are all live jobs. Returns the jobs that changed."""
        now_ms = self._clock.wall_ms()
        self._cooldown.observe(views)
        usual, candidates = self._common_constraints(), self._candidates(views)
        now = queue_state(views, await self._journal.usages(), self._policy, now_ms)
        wanting = {view.id: view for view in ready if is_waiting(view)}
        promised, waiting_jobs = now.promised_offers(), WaitingJobs()
        changed = []
        for job in in_queue_order(self._pool_jobs.pool_jobs(wanting.values(), now_ms), now):
            view, over_quota = wanting[job.id], now.over_quota(job)
            plan = await candidates.plan(view, _constraints(view, usual, candidates, now_ms, over_quota))
            compared = candidates.comparison_for(view)
            if has_deadline(view):
                plan = self.deadlines.apply_policy(with_prediction(view, compared, plan), plan)
            after = await self._record_plan(view, plan, compared, guard)
            if after is not None:
                changed.append(after)
                now.take(after)
            if plan.choice is not None:
                candidates.take(plan.choice, view.organisation)
            elif not over_quota:
                waiting_jobs.add(job, view, plan)
                if job.id in promised:
                    candidates.exclude({promised[job.id]})
                if has_waited_too_long(view, now_ms, self._policy):
                    candidates.reserve_waiting(plan)
        return changed + await self._preempt(waiting_jobs, now, guard)

    async def _preempt(self, waiting_jobs: WaitingJobs, now: QueueState, guard: Guard) -> list[JobView]:
        """Ask running jobs to save and stop for waiting ones, where the queue's policy says so."""
        self._preempt_again_at = float("inf")
        if not self._policy.sharing.preempt:
            return []
        preemptions = choose_preemptions(waiting_jobs, now)
        if preemptions.check_again_s is not None:
            self._preempt_again_at = self._clock.monotonic() + max(0.0, preemptions.check_again_s - now.now_s)
        stopped = [
            await self._write(preemption.slot_use.view, preemption.stop_events, guard)
            for preemption in preemptions.chosen
        ]
        return [view for view in stopped if view is not None]

    async def check_deadlines(
        self, views: Sequence[JobView], running: Sequence[JobView], guard: Guard
    ) -> list[JobView]:
        """Ask those among `running` to move whose deadline, or whose money, wants it. Returns the jobs that changed."""
        now_ms = self._clock.wall_ms()
        usual, candidates = self._common_constraints(), self._candidates(views)
        changed = []
        for view in running:
            live = view.live_attempt
            if live is None:
                continue
            # What it pays for now will have ended by then.
            now = replace(_constraints(view, usual, candidates, now_ms, ""), paid_wait_reason="")
            reason = self.deadlines.check_move(view, await candidates.plan(view, now))
            after = reason and await self._write(
                view, partial(move_events, number=live.number, reason=reason), guard
            )
            if after:
                changed.append(after)
        return changed

    async def check_migrations(
        self, views: Sequence[JobView], running: Sequence[JobView], guard: Guard
    ) -> list[JobView]:
        """Compare where each of `running` is with where else it could be. Returns the jobs that changed.

        A slot that one of them leaves for, or has left for, is not free for the others.
        """
        now_ms = self._clock.wall_ms()
        usual, candidates = self._common_constraints(), self._candidates(views)
        for view in views:
            candidates.reserve_target(view)
        now = queue_state(views, await self._journal.usages(), self._policy, now_ms)
        changed = []
        for view in running:
            self.migrations.record_check(
                view, found=False
            )  # what cannot be weighed must not be first again at once
            own_waits = now.over_quota(pool_job(view, now_ms))
            # What it pays for now will have ended by then.
            there = replace(_constraints(view, usual, candidates, now_ms, own_waits), paid_wait_reason="")
            after = await self._check_migration(view, await candidates.fit(view, there), guard)
            if after is not None:
                changed.append(after)
                candidates.reserve_target(after)
        return changed

    async def _check_migration(self, view: JobView, plan: Plan, guard: Guard) -> JobView | None:
        live, now_ms, rules = view.live_attempt, self._clock.wall_ms(), self._policy.migration
        read, conditions_at = await self._comparer.analysis(view), self._comparer.conditions_at
        found = find_better_offer(view, plan, read, now_ms, self._policy, conditions_at)
        if found is not None:
            self.migrations.record_check(view, found=True)
        number = live.number if live is not None else 0
        return await self._write(
            view, partial(migration_events, number=number, found=found, now_ms=now_ms, rules=rules), guard
        )

    def _common_constraints(self) -> JobConstraints:
        return JobConstraints(
            min_run_s=round(self._policy.min_useful_s + self._policy.stop_allowance_s),
            avoided=self._cooldown.recently_preempted(),
            cooldowns=tuple(sorted(self._cooldown.blocked().items())),
        )

    def _candidates(self, views: Sequence[JobView]) -> "Candidates":
        most = self._policy.max_paid_attempts
        return Candidates(views, self._offer_cache.offers, self._comparer, self._visible, most)

    async def _record_plan(
        self, view: JobView, plan: Plan, compared: JobComparison | None, guard: Guard
    ) -> JobView | None:
        """Write the intent, or why the job waits; nothing when neither is new."""
        if plan.choice is None:
            return await self._write(view, lambda fresh: _waiting_or_failed(fresh, plan), guard)
        offer = plan.choice
        try:
            resume, rejected = await self._resume_point(view)
        except Exception as error:  # noqa: BLE001  a store that cannot read one checkpoint must not stop the queue
            reason = f"its checkpoint cannot be read now: {error}"
            return await self._write(view, lambda fresh: _waiting_events(fresh, reason), guard)

        told = [await self._comparer.store_plan(view, compared, offer)] if compared is not None else []

        def launch(fresh: JobView) -> list[Event]:
            if not is_waiting(fresh) or len(fresh.attempts) != len(view.attempts):
                return []
            return [*rejected, *told, self._launch_intent(fresh, offer, resume)]

        return await self._write(view, launch, guard)

    def _launch_intent(self, view: JobView, offer: Offer, resume: CheckpointRef | None) -> AttemptLaunching:
        number = len(view.attempts) + 1
        return AttemptLaunching(
            attempt=number,
            name=attempt_name(view.id, number),
            offer=offer,
            ticket_sha256=ticket_sha256(self._tickets.ticket(view.id, number)),
            resume=resume,
        )

    async def _resume_point(self, view: JobView) -> tuple[CheckpointRef | None, list[CheckpointRejected]]:
        """The newest checkpoint that can be read back, and those that cannot."""
        rejected: list[CheckpointRejected] = []
        for checkpoint in reversed(view.checkpoints):
            try:
                await self._checkpoints.check(checkpoint.manifest)
            except (BlobCorrupt, BlobMissing) as error:
                number = len(view.attempts) + 1
                rejected.append(
                    CheckpointRejected(attempt=number, checkpoint_id=checkpoint.id, reason=str(error))
                )
            else:
                return checkpoint, rejected
        return None, rejected

    async def _write(self, view: JobView, decide: DecideEvents, guard: Guard) -> JobView | None:
        at_ms = self._clock.wall_ms()
        if not decide(view):
            return None
        written = await self._journal.transact(SYSTEM, view.id, decide, at_ms=at_ms, guard=guard)
        return written.view if written.recorded else None


def _constraints(
    view: JobView, usual: JobConstraints, candidates: "Candidates", now_ms: int, own_waits: str
) -> JobConstraints:
    return replace(
        usual,
        resumable=has_resume_path(view.spec) or bool(view.checkpoints or view.past_checkpoints),
        budget_left_microusd=remaining_budget(view, now_ms),
        preferred_backend=view.migrate_to,
        preferred_offer=target.key if (target := target_offer(view)) else None,
        paid_wait_reason=candidates.paid_limit_reason(view.organisation),
        own_wait_reason=own_waits,
    )


def _waiting_or_failed(view: JobView, plan: Plan) -> list[Event]:
    """Why it waits; or its end, when what is left of its budget pays for nothing any more."""
    all_released = all(attempt.is_released for attempt in view.attempts)
    if view.cost_microusd and all_released and plan.beyond_budget and is_waiting(view):
        return [JobFailed(failure=budget_failure(view, view.cost_microusd))]
    newest = view.newest_attempt
    made_room = newest.stop_message if newest is not None and newest.makes_room_for else ""
    return _waiting_events(view, f"{made_room}: {plan.reason}" if made_room else plan.reason)


def _waiting_events(view: JobView, reason: str) -> list[Event]:
    known = view.reason == reason
    return [] if known or not is_waiting(view) else [JobWaited(reason=reason)]
