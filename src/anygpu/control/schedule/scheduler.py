"""Schedule waiting jobs: choose an offer for each, and record that it will be launched.

The reconciler (control/reconcile) then launches the attempt.
"""

from collections.abc import Callable, Iterable, Sequence

from anygpu.control.accounting.money import budget_failure
from anygpu.control.agents.tickets import Tickets, ticket_sha256
from anygpu.control.clock import Clock
from anygpu.control.ids import attempt_name
from anygpu.control.policy import ControlPolicy
from anygpu.control.record import EventRecorder
from anygpu.control.resume import find_resume_point
from anygpu.control.schedule.candidates import CandidateSource
from anygpu.control.schedule.compare import JobComparison, OfferComparer, with_prediction
from anygpu.control.schedule.deadline import DeadlineTracker, has_deadline
from anygpu.control.schedule.own_wait import (
    SlotForecast,
    apply_wait,
    slot_forecast,
    wait_for_own_machine,
)
from anygpu.control.schedule.preemption import WaitingJobs, choose_preemptions
from anygpu.control.schedule.queue import (
    PoolJobCache,
    PoolState,
    has_waited_too_long,
    in_queue_order,
    is_waiting,
    queue_state,
)
from anygpu.events.facts import CheckpointRef
from anygpu.events.offers import Offer
from anygpu.events.slots import needed_slots
from anygpu.events.types import AttemptLaunching, CheckpointRejected, Event, JobFailed, JobWaited
from anygpu.events.view import JobView
from anygpu.plan.offers.selection import Plan
from anygpu.store.blobs.checkpoints import Checkpoints
from anygpu.store.journal import Guard, Journal

DecideEvents = Callable[[JobView], list[Event]]


class Scheduler:
    """Records for every waiting job either that it will be launched on an offer, or why it waits."""

    def __init__(
        self,
        journal: Journal,
        offers: CandidateSource,
        deadlines: DeadlineTracker,
        checkpoints: Checkpoints,
        comparer: OfferComparer,
        tickets: Tickets,
        clock: Clock,
        policy: ControlPolicy,
    ) -> None:
        self._journal = journal
        self._recorder = EventRecorder(journal, clock)
        self._offers = offers
        self._deadlines = deadlines
        self._checkpoints = checkpoints
        self._comparer = comparer
        self._tickets = tickets
        self._clock = clock
        self._policy = policy
        self._pool_jobs = PoolJobCache()
        self._preempt_again_at = self._rent_at = float("inf")

    def next_at(self) -> float:
        """Return the next time at which a waiting job may get an offer even if no job changes.

        At that time a blocked offer can be used again, a running job may be preempted because it has run for its
        minimum time, or a short job has waited long enough for an own machine.
        """
        return min(self._offers.next_at(), self._preempt_again_at, self._rent_at)

    async def run(self, views: Sequence[JobView], ready: Sequence[JobView], guard: Guard) -> list[JobView]:
        """Schedule the `ready` jobs, given the states (`views`) of all live jobs. Return the jobs that changed."""
        now_ms = self._clock.wall_ms()
        candidates = self._offers.candidates(views, observe=True)
        now = queue_state(views, await self._journal.usages(), self._policy, now_ms)
        wanting = {view.id: view for view in ready if is_waiting(view)}
        promised, waiting_jobs = now.promised_offers(), WaitingJobs()
        forecast, self._rent_at = slot_forecast(now.slot_uses, now_ms), float("inf")
        changed = []
        for job in in_queue_order(self._pool_jobs.pool_jobs(wanting.values(), now_ms), now):
            view, over_quota = wanting[job.id], now.over_quota(job)
            plan = await candidates.plan(view, await candidates.constraints(view, now_ms, over_quota))
            compared = candidates.comparison_for(view)
            plan = self._prefer_own_machine(view, plan, compared, forecast, now_ms)
            if has_deadline(view):
                plan = self._deadlines.apply_policy(with_prediction(view, compared, plan), plan)
            after = await self._record_plan(view, plan, compared, guard)
            if after is not None:
                changed.append(after)
                now.take(after)
            if plan.choice is not None:
                candidates.take(plan.choice, view.organisation, view.spec.resources.nodes)
            elif not over_quota:
                waiting_jobs.add(job, view, plan)
                if job.id in promised:
                    candidates.exclude({promised[job.id]})
                if has_waited_too_long(view, now_ms, self._policy):
                    candidates.reserve_waiting(plan)
        return changed + await self._preempt(waiting_jobs, now, guard)

    def _prefer_own_machine(
        self, view: JobView, plan: Plan, compared: JobComparison | None, forecast: SlotForecast, now_ms: int
    ) -> Plan:
        """Return the plan, changed so that a short job waits for a busy own machine if that is faster than renting."""
        wait = None if has_deadline(view) else wait_for_own_machine(view, plan, compared, forecast, now_ms)
        if wait is None:
            return plan
        forecast.add(wait.pool, needed_slots(view.spec.resources)[1], wait.run_s)
        self._rent_at = min(self._rent_at, self._clock.monotonic() + wait.at_most_s)
        return apply_wait(plan, wait)

    async def _preempt(self, waiting_jobs: WaitingJobs, now: PoolState, guard: Guard) -> list[JobView]:
        """Ask running jobs to save and stop for waiting jobs, as the fair-share policy decides.

        Return the jobs that changed.
        """
        self._preempt_again_at = float("inf")
        if not self._policy.sharing.preempt:
            return []
        preemptions = choose_preemptions(waiting_jobs, now)
        if preemptions.check_again_s is not None:
            self._preempt_again_at = self._clock.monotonic() + max(0.0, preemptions.check_again_s - now.now_s)
        stopped = [
            await self._recorder.record(preemption.slot_use.view, preemption.stop_events, guard)
            for preemption in preemptions.chosen
        ]
        return [view for view in stopped if view is not None]

    async def _record_plan(
        self, view: JobView, plan: Plan, compared: JobComparison | None, guard: Guard
    ) -> JobView | None:
        """Record that the job will be launched on the chosen offer, or why it waits.

        Return the new state of the job, or None if nothing is new.
        """
        if plan.choice is None:
            return await self._recorder.record(view, lambda fresh: _waiting_or_failed(fresh, plan), guard)
        offer = plan.choice
        try:
            resume, rejected = await self._resume_point(view)
        except Exception as error:  # noqa: BLE001  one unreadable checkpoint must not stop the queue
            reason = f"its checkpoint cannot be read now: {error}"
            return await self._recorder.record(view, lambda fresh: _waiting_events(fresh, reason), guard)

        told = [await self._comparer.store_plan(view, compared, offer)] if compared is not None else []

        def launch(fresh: JobView) -> list[Event]:
            if not is_waiting(fresh) or len(fresh.attempts) != len(view.attempts):
                return []
            return [*rejected, *told, self._launch_intent(fresh, plan, offer, resume)]

        return await self._recorder.record(view, launch, guard)

    def _launch_intent(
        self, view: JobView, plan: Plan, offer: Offer, resume: CheckpointRef | None
    ) -> AttemptLaunching:
        number = len(view.attempts) + 1
        return AttemptLaunching(
            attempt=number,
            name=attempt_name(view.id, number),
            offer=offer,
            ticket_sha256=ticket_sha256(self._tickets.ticket(view.id, number)),
            resume=resume,
            nodes=view.spec.resources.nodes,
            on_demand_microusd_per_hour=_on_demand_price(offer, (each.offer for each in plan.ranked)),
        )

    async def _resume_point(self, view: JobView) -> tuple[CheckpointRef | None, list[CheckpointRejected]]:
        """Return the newest intact checkpoint, and a rejection event for each newer, damaged one."""
        found = await find_resume_point(self._checkpoints, view.checkpoints)
        number = len(view.attempts) + 1
        rejected = [
            CheckpointRejected(
                attempt=number, checkpoint_id=checkpoint.id, reason=reason, step=checkpoint.step
            )
            for checkpoint, reason in found.damaged
        ]
        return found.checkpoint, rejected


def _on_demand_price(offer: Offer, others: Iterable[Offer]) -> int | None:
    """Return the price of the same machine without interruptions; None if it is unknown or the offer has none."""
    if not offer.interruptible:
        return None
    machine = offer.backend, offer.region, offer.name
    prices = [
        each.price_microusd_per_hour
        for each in others
        if not each.interruptible and each.is_paid and (each.backend, each.region, each.name) == machine
    ]
    return min(prices, default=None)


def _waiting_or_failed(view: JobView, plan: Plan) -> list[Event]:
    """Return the event that says why the job waits.

    If the remaining budget pays for no offer, the event is the job's failure.
    """
    all_released = all(attempt.is_released for attempt in view.attempts)
    if view.cost_microusd and all_released and plan.beyond_budget and is_waiting(view):
        return [JobFailed(failure=budget_failure(view, view.cost_microusd))]
    newest = view.newest_attempt
    made_room = newest.stop_message if newest is not None and newest.makes_room_for else ""
    return _waiting_events(view, f"{made_room}: {plan.reason}" if made_room else plan.reason)


def _waiting_events(view: JobView, reason: str) -> list[Event]:
    known = view.reason == reason
    return [] if known or not is_waiting(view) else [JobWaited(reason=reason)]
