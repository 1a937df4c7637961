"""Bugs put into the real control code on purpose: the simulation is worth what it catches.

Each is one small wrong turn somebody could take; the test asserts which invariant notices it, and how soon.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from inspect import iscoroutinefunction
from typing import Any

from anygpu.agent.link import mailbox
from anygpu.backends.contract import LaunchRequest
from anygpu.backends.slurm import states
from anygpu.control import resume, sweep
from anygpu.control.accounting import money
from anygpu.control.agents import service
from anygpu.control.agents.ends import parse_end
from anygpu.control.agents.service import AgentService
from anygpu.control.agents.tickets import AttemptKey
from anygpu.control.ids import attempt_name
from anygpu.control.jobs import Jobs
from anygpu.control.reconcile import decide, liveness, verdict
from anygpu.control.reconcile.attempt import AttemptReconciler
from anygpu.control.schedule import candidates, deadline, migration, queue, scheduler
from anygpu.control.schedule.candidates import Candidates
from anygpu.control.schedule.queue import PoolState
from anygpu.control.schedule.scheduler import Scheduler
from anygpu.control.supervisor import Supervisor
from anygpu.control.sweep import Sweeper
from anygpu.control.tasks import ScheduleTask
from anygpu.control.term import LeaderTerm
from anygpu.errors import AnygpuError, JobDamaged
from anygpu.events.codec import decode_view
from anygpu.events.facts import Blame, CheckpointRef, Failure, Phase
from anygpu.events.offers import Billing
from anygpu.events.transitions import attempts, checkpoints, rules
from anygpu.events.transitions import jobs as job_transitions
from anygpu.events.types import AttemptClaimed, AttemptReleased
from anygpu.plan.offers import consent, fit
from anygpu.plan.spot.policy import WAIT, MachineChoice, SpotDecision
from anygpu.server.relay.task import RelayTask, RelayWorker
from anygpu.store.blobs.keys import parse_manifest_key
from anygpu.store.scope import SYSTEM
from anygpu.store.sql import jobs
from anygpu.testing.memory.reports import MemoryReports
from anygpu.testing.simulation.providers import queue_engine
from anygpu.testing.simulation.world import Store

Patch = tuple[Any, str, Any]


@dataclass(frozen=True)
class Planted:
    """A bug, the invariants of which one must notice it, and the journal of the histories."""

    name: str
    caught_by: frozenset[int]
    patches: tuple[Patch, ...]
    store: Store = "memory"

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Plant the bug. Fails if it raised an error of its own making, which might be caught in its place."""
        mistakes: list[Exception] = []
        with ExitStack() as stack:
            for owner, name, wrong in self.patches:
                stack.callback(setattr, owner, name, vars(owner)[name])
                setattr(owner, name, _watched(wrong, mistakes))
            yield
        assert not mistakes, f"{self.name} is not the bug that it should be: {mistakes[0]!r}"


def _watched(wrong: Callable[..., Any], mistakes: list[Exception]) -> Callable[..., Any]:
    """Collect the errors that only a stale name or signature raises; they go on to the caller."""

    @contextmanager
    def watch() -> Iterator[None]:
        try:
            yield
        except (AttributeError, ImportError, NameError, TypeError) as mistake:
            mistakes.append(mistake)
            raise

    async def watched_async(*args: Any, **options: Any) -> Any:
        with watch():
            return await wrong(*args, **options)

    def watched(*args: Any, **options: Any) -> Any:
        with watch():
            return wrong(*args, **options)

    return watched_async if iscoroutinefunction(wrong) else watched


PLANTED: list[Planted] = []
NOT_GUARDED: Any = None


def planted(
    *caught_by: int, store: Store = "memory"
) -> Callable[[Callable[[], list[Patch]]], Callable[[], list[Patch]]]:
    def plant(patches: Callable[[], list[Patch]]) -> Callable[[], list[Patch]]:
        PLANTED.append(Planted(patches.__name__, frozenset(caught_by), tuple(patches()), store))
        return patches

    return plant


# -- leading and launching --------------------------------------------------------------------------------------


@planted(2)
def the_lease_guards_no_write() -> list[Patch]:
    look, place = AttemptReconciler.reconcile, Scheduler.run
    return [
        (AttemptReconciler, "reconcile", lambda self, job_id, guard: look(self, job_id, NOT_GUARDED)),
        (Scheduler, "run", lambda self, views, ready, guard: place(self, views, ready, NOT_GUARDED)),
    ]


@planted(3)
def machines_are_launched_before_the_intent_is_written() -> list[Patch]:
    right = Scheduler._record_plan

    async def settle(self: Scheduler, view: Any, plan: Any, compared: Any, guard: Any) -> Any:
        if plan.choice is not None:
            number = len(view.attempts) + 1
            launch = LaunchRequest(
                name=attempt_name(view.id, number),
                job_id=view.id,
                attempt=number,
                ticket=self._tickets.ticket(view.id, number),
                agent_url="",
                resources=view.spec.resources,
            )
            await self._offers._cache._backends[plan.choice.backend].launch(launch, plan.choice)
        return await right(self, view, plan, compared, guard)

    return [(Scheduler, "_record_plan", settle)]


@planted(2)
def the_next_attempt_starts_before_the_lease_has_run_out() -> list[Patch]:
    right = liveness._loss_by_silence

    def soon(attempt: Any, seen: Any, policy: Any) -> Failure | None:
        return right(attempt, seen, replace(policy, lease_s=1, grace_s=0, probes_before_lost=1))

    return [
        (liveness, "_loss_by_silence", soon),
        (ScheduleTask, "_can_start", lambda self, view: True),
    ]


@planted(2)
def any_agent_may_claim() -> list[Patch]:
    async def claim(self: AgentService, ticket: str, claimant: str, host: Any, node: int = 0) -> Any:
        job_id, number = self._tickets.read_ticket(ticket)

        def anyone(view: Any) -> list[Any]:
            attempt = service._require_live(view, number)
            return [] if attempt.claimant else [AttemptClaimed(attempt=number, claimant=claimant)]

        view = await self._commit(job_id, anyone)
        key = AttemptKey(job_id, number, claimant)
        return await self._build_claim_answer(view, view.attempts[number - 1], key)

    return [(AgentService, "claim", claim)]


# -- ending -----------------------------------------------------------------------------------------------------


@planted(1, 3)
def terminate_is_called_only_once() -> list[Patch]:
    right = AttemptReconciler._probe

    async def probe(self: AttemptReconciler, backend: Any, attempt: Any, tracker: Any) -> None:
        terminated = tracker.terminated
        await right(self, backend, attempt, tracker)
        tracker.terminated = terminated

    return [(AttemptReconciler, "_probe", probe)]


@planted(3)
def released_without_looking() -> list[Patch]:
    return [
        (decide, "_is_gone", lambda seen, policy: seen.terminated),
        (decide, "_release", lambda attempt, seen, now_ms: AttemptReleased(attempt=attempt.number)),
    ]


@planted(3)
def jobs_end_while_machines_are_left() -> list[Patch]:
    right = decide._after_attempt

    def after(view: Any, *, all_released: bool, **options: Any) -> Any:
        return right(view, all_released=True, **options)

    def ended(event: Any, view: Any, at_ms: int, status: Any) -> Any:
        return replace(view, status=status, phase=Phase.ENDED, ended_at_ms=at_ms)

    return [(decide, "_after_attempt", after), (job_transitions, "_end_job", ended)]


@planted(3)
def nobody_sweeps() -> list[Patch]:
    async def run(self: Sweeper, live: Any, damaged: Any) -> None:
        return None

    return [(Sweeper, "run", run)]


@planted(12)
def lost_at_the_first_silent_look() -> list[Patch]:
    def silent(attempt: Any, seen: Any, policy: Any) -> Failure | None:
        if attempt.claimant is None or not seen.silent_probes:
            return None
        return Failure(code="silent", message="did not speak", blame=Blame.INFRASTRUCTURE)

    return [(liveness, "_loss_by_silence", silent)]


@planted(1)
def a_cancel_during_recovery_is_forgotten() -> list[Patch]:
    right = decide._after_attempt

    def after(view: Any, **options: Any) -> Any:
        return iter(()) if view.recovering_since_ms is not None else right(view, **options)

    return [(decide, "_after_attempt", after)]


@planted(1)
def user_errors_are_retried() -> list[Patch]:
    right = verdict.failure_of

    def why(view: Any, attempt: Any) -> Failure | None:
        failure = right(view, attempt)
        if failure is not None and failure.blame is Blame.USER:
            return replace(failure, blame=Blame.INFRASTRUCTURE)
        return failure

    return [(verdict, "failure_of", why)]


@planted(1)
def an_outage_of_a_backend_uses_up_retries() -> list[Patch]:
    return [(verdict, "is_outage", lambda attempt: False)]


@planted(1)
def every_exit_is_a_success() -> list[Patch]:
    return [(verdict, "_exit_failure", lambda attempt, need: None)]


# -- money ------------------------------------------------------------------------------------------------------


@planted(4)
def minimums_and_steps_are_not_charged() -> list[Patch]:
    return [(Billing, "billed_s", lambda self, used_s: max(0, used_s))]


@planted(4)
def the_ledger_goes_by_our_own_clock() -> list[Patch]:
    return [(money, "_billing_start_ms", lambda attempt, observation: attempt.launching_at_ms)]


@planted(4)
def the_price_of_the_offer_is_charged_whatever_the_provider_says() -> list[Patch]:
    return [(money, "_price", lambda attempt, observation: attempt.offer.price_microusd_per_hour)]


@planted(4)
def machines_that_were_taken_back_are_free() -> list[Patch]:
    right = money.usage_of

    def usage_of(attempt: Any, observation: Any, now_ms: int) -> Any:
        taken = observation is not None and observation.preempted
        return None if taken else right(attempt, observation, now_ms)

    return [(decide, "usage_of", usage_of)]


@planted(5)
def budgets_are_not_kept() -> list[Patch]:
    def never(view: Any, billed_s: Any, ahead_s: float) -> bool:
        return False

    return [(money, "is_over_budget", never), (decide, "is_over_budget", never)]


@planted(5)
def only_released_machines_count_against_the_budget() -> list[Patch]:
    def released_only(view: Any, billed_s: Any, *, ahead_s: float = 0) -> int:
        return int(view.cost_microusd)

    return [(money, "cost_so_far", released_only)]


@planted(5)
def launches_in_flight_are_not_counted() -> list[Patch]:
    right = candidates._paid_in_flight

    def launched(views: Any) -> Any:
        kept = [replace(v, attempts=tuple(a for a in v.attempts if a.handle is not None)) for v in views]
        return right(kept)

    return [(candidates, "_paid_in_flight", launched)]


@planted(5)
def machines_that_are_ending_are_not_counted() -> list[Patch]:
    right = candidates._paid_in_flight

    def live(views: Any) -> Any:
        return right([replace(v, attempts=tuple(a for a in v.attempts if not a.is_over)) for v in views])

    return [(candidates, "_paid_in_flight", live)]


@planted(3)
def addresses_are_not_swept() -> list[Patch]:
    async def none(backend: Any, now_ms: int) -> list[Any]:
        return []

    return [(sweep, "_list_leftovers", none)]


@planted(14)
def every_job_may_use_paid_machines() -> list[Patch]:
    return [(consent, "allows_paid", lambda spec, default: True)]


@planted(14)
def a_setting_outweighs_what_the_job_forbids() -> list[Patch]:
    return [(consent, "allows_paid", lambda spec, default: default or spec.placement.paid is not None)]


# -- committing -------------------------------------------------------------------------------------------------


@planted(2)
def only_metrics_are_fenced() -> list[Patch]:
    return [
        (service, "_require_owner", lambda view, key: None),
        *(
            (module, "require_live", lambda event, number, view: view.attempts[number - 1])
            for module in (attempts, checkpoints, job_transitions, rules)
        ),
    ]


@planted(6)
def an_unpublished_checkpoint_is_resumed() -> list[Patch]:
    async def newest_manifest(self: Scheduler, view: Any) -> Any:
        found: list[CheckpointRef] = []
        async for blob in self._checkpoints._blobs.list(f"org/{view.organisation}/jobs/{view.id}"):
            named = parse_manifest_key(blob.key)
            if named is not None:
                _, manifest = await self._checkpoints.read(blob.key)
                attempt = named[0].attempt
                found.append(CheckpointRef(
                    id=named[1], attempt=attempt, step=manifest.step, manifest=blob.key, size=1, saved_at_ms=1
                ))  # fmt: skip
        return max(found, key=lambda c: (c.attempt, c.step), default=None), []

    return [(Scheduler, "_resume_point", newest_manifest)]


@planted(6)
def the_oldest_checkpoint_is_resumed() -> list[Patch]:
    async def oldest(self: Scheduler, view: Any) -> Any:
        return (view.checkpoints[0] if view.checkpoints else None), []

    return [(Scheduler, "_resume_point", oldest)]


@planted(6)
def checkpoints_are_resumed_unread() -> list[Patch]:
    async def unread(self: Scheduler, view: Any) -> Any:
        return view.newest_checkpoint, []

    return [(Scheduler, "_resume_point", unread)]


@planted(8)
def the_end_is_recorded_before_the_frames() -> list[Patch]:
    async def end(self: AgentService, key: Any, body: Any) -> Any:
        row = await self._reports.state(key.job_id, key.attempt)
        ending = parse_end(body)

        def fact(view: Any) -> list[Any]:
            if service._has_ended(view, key):
                return []
            service._require_owner(view, key)
            return [ending.to_event(key.attempt, row)]

        await self._commit(key.job_id, fact)
        return {"ok": True}

    return [(AgentService, "end", end)]


@planted(8)
def the_answer_to_another_request_is_taken_for_the_own() -> list[Patch]:
    return [(mailbox, "answers", lambda head, request_id: True)]


@planted(3)
def mailboxes_are_left() -> list[Patch]:
    async def remove(self: RelayWorker, name: str) -> bool:
        return True

    return [(RelayWorker, "remove", remove)]


@planted(3)
def only_the_server_that_saw_the_end_removes_the_mailbox() -> list[Patch]:
    async def forget(self: RelayTask) -> None:
        return None

    return [(RelayTask, "_remove_leftovers", forget)]


# -- taking in --------------------------------------------------------------------------------------------------


@planted(7)
def idempotency_keys_are_ignored() -> list[Patch]:
    right = Jobs.submit

    async def submit(self: Jobs, scope: Any, spec: Any) -> Any:
        return await right(self, scope, spec.model_copy(update={"idempotency_key": None}))

    return [(Jobs, "submit", submit)]


@planted(8)
def frames_sent_twice_are_stored_twice() -> list[Patch]:
    right = MemoryReports._store

    def store(self: MemoryReports, job_id: str, row: Any, batch: Any, at_ms: int) -> None:
        row.acked = 0
        right(self, job_id, row, batch, at_ms)

    return [(MemoryReports, "_store", store)]


@planted(8)
def gaps_are_accepted() -> list[Patch]:
    right = MemoryReports.ingest

    async def ingest(self: MemoryReports, job_id: str, attempt: int, batch: Any, *, at_ms: int) -> Any:
        return await right(self, job_id, attempt, replace(batch, first=1), at_ms=at_ms)

    return [(MemoryReports, "ingest", ingest)]


@planted(8)
def reports_are_acknowledged_before_they_are_durable() -> list[Patch]:
    right = AgentService.report

    async def report(self: AgentService, key: Any, batch: Any) -> Any:
        try:
            return await right(self, key, batch)
        except AnygpuError:
            return {"acked": batch.last, "lease_s": self._policy.lease_s, "orders": []}

    return [(AgentService, "report", report)]


@planted(10)
def the_view_remembers_what_the_events_do_not_say() -> list[Patch]:
    right = checkpoints._with_checkpoints

    def keeping(view: Any, kept: Any) -> Any:
        SEEN.append(view.id)
        return replace(right(view, kept), work_lost_s=float(len(SEEN)))

    return [(checkpoints, "_with_checkpoints", keeping)]


SEEN: list[str] = []


# -- deadlines --------------------------------------------------------------------------------------------------


@planted(9)
def spot_is_waited_for_whatever_the_deadline() -> list[Patch]:
    def answer(asked: Any, weather: Any) -> Any:
        if asked.at.running != WAIT:
            return SpotDecision(asked.at.running, "stays")
        return SpotDecision(
            MachineChoice("spot", asked.at.available[0]) if asked.at.available else WAIT, "greedy"
        )

    return [(deadline, "decide_spot", answer)]


# -- moving -----------------------------------------------------------------------------------------------------


@planted(13)
def jobs_that_cannot_resume_are_moved() -> list[Patch]:
    return [
        (migration, "has_own_checkpoint", lambda view, attempt: True),
        (migration, "has_fresh_checkpoint", lambda view, now_ms: True),
    ]


@planted(13)
def a_job_is_moved_to_and_fro() -> list[Patch]:
    return [
        (migration, "is_worth_moving", lambda option, strategy, policy, preference_gain: True),
        (migration, "past_migrations", lambda view: []),
    ]


@planted(13)
def advice_is_taken_for_an_order() -> list[Patch]:
    return [(migration, "migration_mode", lambda spec, rules: "act")]


# -- resuming ---------------------------------------------------------------------------------------------------


@planted(15)
def a_restored_checkpoint_is_taken_for_a_resume() -> list[Patch]:
    return [(resume, "resume_shown", lambda view, checkpoint, first, new_training: True)]


@planted(15)
def restarts_go_unnoticed() -> list[Patch]:
    right = resume.resume_shown

    def shown(*told: Any) -> bool | None:
        return right(*told) or None

    return [(resume, "resume_shown", shown)]


@planted(15)
def a_restart_loses_only_what_was_not_saved() -> list[Patch]:
    return [(resume, "restart_loss", lambda view, number: resume.Work(seconds=0.0, microusd=0))]


@planted(15)
def checkpoint_files_are_a_way_to_resume() -> list[Patch]:
    right = Candidates._resumable

    async def resumable(self: Candidates, view: Any) -> bool | None:
        return True if view.spec.checkpoint.paths else await right(self, view)

    return [(Candidates, "_resumable", resumable)]


@planted(15)
def a_job_that_restarted_goes_to_spot_again() -> list[Patch]:
    right = fit._interruption_reason

    def reason(spec: Any, offer: Any, *, resumable: bool | None) -> str:
        return right(spec, offer, resumable=resumable or None)

    return [(fit, "_interruption_reason", reason)]


# -- waiting ----------------------------------------------------------------------------------------------------


@planted(11)
def the_newest_job_is_always_first() -> list[Patch]:
    def in_turn(jobs: Any, now: Any) -> Any:
        return sorted(jobs, key=lambda job: (-job.priority, -job.submitted_s))

    return [
        (scheduler, "in_queue_order", in_turn),
        (scheduler, "has_waited_too_long", lambda view, now_ms, policy: False),
    ]


@planted(5)
def a_quota_is_only_a_wish() -> list[Patch]:
    return [(PoolState, "over_quota", lambda self, job: "")]


@planted(11)
def jobs_that_cannot_go_on_are_stopped_for_others() -> list[Patch]:
    return [(queue, "_is_preemptible", lambda view: True)]


@planted(1)
def there_is_no_net_under_the_wake_ups() -> list[Patch]:
    right = Supervisor._reload_jobs

    async def only_once(self: Supervisor, term: LeaderTerm) -> None:
        if term.reloaded_at < 0:
            await right(self, term)

    return [(Supervisor, "_reload_jobs", only_once)]


@planted(1, 3)
def a_failed_look_is_the_last_one() -> list[Patch]:
    right = Supervisor._reconcile

    async def look(self: Supervisor, term: LeaderTerm, job_id: str) -> None:
        try:
            view = await self._journal.view(SYSTEM, job_id)
            await term.reconciler.reconcile(view.id, term.guard)
        except AnygpuError:
            term.reconciling[job_id] = asyncio.create_task(asyncio.sleep(0))
            return
        await right(self, term, job_id)

    return [(Supervisor, "_reconcile", look)]


# -- damaged rows -----------------------------------------------------------------------------------------------


@planted(1, store="sql")
def a_damaged_view_is_not_folded_again() -> list[Patch]:
    return [(jobs, "decode_stored_view", lambda job_id, position, data: decode_view(data))]


@planted(1, store="sql")
def one_damaged_job_ends_the_round_of_the_control_loop() -> list[Patch]:
    def refuse(self: Supervisor, term: LeaderTerm, view: Any) -> None:
        raise JobDamaged(view.damaged)

    return [(Supervisor, "_set_aside", refuse)]


@planted(3, store="sql")
def machines_of_damaged_jobs_are_never_ended() -> list[Patch]:
    right = Sweeper.run

    async def keep_all(self: Sweeper, live: Any, damaged: Any) -> None:
        await right(self, live, dict.fromkeys(damaged, float("inf")))

    return [(Sweeper, "run", keep_all)]


# -- engines that start jobs again --------------------------------------------------------------------------------


@planted(8)
def a_requeued_job_runs_the_same_attempt_again() -> list[Patch]:
    """Neither the batch script nor the server notices that the engine has restarted the job."""
    return [
        (queue_engine, "may_run", lambda machine: True),
        (states, "is_restarted", lambda job: False),
    ]
