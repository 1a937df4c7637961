"""Submit, start, cancel, migrate, resume, release and delete jobs.

Each operation writes an event; the supervisor then acts on the event.
"""

from collections.abc import Mapping
from typing import Any

from anygpu.control.clock import Clock, Randomness, WakeSignal
from anygpu.control.ids import new_job_id
from anygpu.errors import Conflict, InvalidSpec, NotFound
from anygpu.events.facts import CheckpointRef
from anygpu.events.offers import LOCAL
from anygpu.events.types import (
    CancelRequested,
    Event,
    HoldEnded,
    JobSubmitted,
    MigrateRequested,
    StartRequested,
)
from anygpu.events.view import JobView
from anygpu.spec.jobspec import JobSpec
from anygpu.spec.load import from_mapping
from anygpu.spec.trainer_check import trainer_problems
from anygpu.spec.unsupported import unsupported_fields
from anygpu.spec.workdir_check import workdir_problems
from anygpu.store.journal import Decide, Journal, TransactionResult, require_intact
from anygpu.store.reports import Reports
from anygpu.store.scope import Scope


def require_supported(spec: JobSpec, *, may_run_in_place: bool) -> None:
    """Raise InvalidSpec if the spec asks for something that the server does not do.

    `may_run_in_place`: the job is of the server's own organisation, so it may use the server's directories.
    """
    files = workdir_problems(spec, may_run_in_place=may_run_in_place)
    problems = [*files, *unsupported_fields(spec), *trainer_problems(spec)]
    if problems:
        raise InvalidSpec(problems)


class Jobs:
    """Handles requests about jobs: writes an event and wakes the control loop. Never waits for a provider."""

    def __init__(
        self,
        journal: Journal,
        reports: Reports,
        clock: Clock,
        randomness: Randomness,
        wake: WakeSignal,
        own_organisation: str = "local",
    ) -> None:
        self._journal = journal
        self._reports = reports
        self._clock = clock
        self._randomness = randomness
        self._wake = wake
        self._own_organisation = own_organisation

    async def submit(self, scope: Scope, spec: JobSpec) -> TransactionResult:
        """Accept a job.

        If a job with the same idempotency key exists, return that job, with an empty `recorded`.
        """
        event = JobSubmitted(spec=spec, person=scope.person)
        if spec.resume_from is not None:
            event = await self._resume_event(scope, spec, spec.resume_from)
        return await self._submit(scope, event)

    async def cancel(self, scope: Scope, job_id: str) -> JobView:
        """Request the cancellation of a job.

        A repeated request, or one for a finished job, changes nothing.
        """

        def decide(view: JobView) -> list[Event]:
            done = view.is_terminal or view.cancel_requested
            return [] if done else [CancelRequested(person=scope.person)]

        return await self._transact(scope, job_id, decide)

    async def start(self, scope: Scope, job_id: str) -> JobView:
        """Ask to start a waiting job before the other waiting jobs of its project.

        Capacity, quotas and budgets apply as before. A repeated request, or one for a job that already runs,
        changes nothing.
        """

        def decide(view: JobView) -> list[Event]:
            if view.is_terminal or view.cancel_requested:
                doing = view.status if view.is_terminal else "being cancelled"
                raise Conflict(
                    f"job {view.name or view.id} is {doing}", hint="Submit or resume it as a new job."
                )
            done = view.live_attempt is not None or view.start_requested_at_ms is not None
            return [] if done else [StartRequested(person=scope.person)]

        return await self._transact(scope, job_id, decide)

    async def migrate(self, scope: Scope, job_id: str, to: str) -> JobView:
        """Ask a job to save, stop and continue at backend `to`.

        If `to` has no free offer by then, the planner chooses another backend.
        """

        def decide(view: JobView) -> list[Event]:
            if view.migrate_to == to and not view.is_terminal:
                return []
            require_migratable(view, to)
            return [MigrateRequested(to=to, person=scope.person)]

        return await self._transact(scope, job_id, decide)

    async def release(self, scope: Scope, job_id: str) -> JobView:
        """Release the machine that is held after a failure. A repeated request changes nothing."""

        def decide(view: JobView) -> list[Event]:
            held = [a.number for a in view.attempts if a.is_held]
            if not held and not any(a.hold_ended for a in view.attempts):
                raise Conflict(
                    f"job {view.name or view.id} holds no machine; it is {view.phase}; see hold_on_failure"
                )
            return [HoldEnded(attempt=number, reason="release", person=scope.person) for number in held]

        return await self._transact(scope, job_id, decide)

    async def delete(self, scope: Scope, job_id: str) -> None:
        """Delete a job that has ended, with its events, logs and metrics. `anygpu gc` deletes its files."""
        await self._journal.delete(scope, job_id, at_ms=self._clock.wall_ms())
        await self._reports.delete(job_id)

    async def _transact(self, scope: Scope, job_id: str, decide: Decide) -> JobView:
        written = await self._journal.transact(scope, job_id, decide, at_ms=self._clock.wall_ms())
        self._wake.set(job_id)
        return written.view

    async def resume(self, scope: Scope, job_id: str, overrides: Mapping[str, Any]) -> TransactionResult:
        """Submit a new job that continues from the newest checkpoint of an ended job.

        `overrides` replace fields of the ended job's spec.
        """
        old = await self._journal.view(scope, job_id)
        require_intact(old)
        if not old.is_terminal:
            raise Conflict(
                f"job {old.name or old.id} is still {old.status}",
                hint="Wait until it ends, or cancel it with `anygpu cancel`.",
            )
        same = old.spec.model_dump(
            mode="json", exclude_defaults=True, exclude={"idempotency_key", "resume_from"}
        )
        spec = from_mapping({**same, **overrides}, source="resume")
        event = JobSubmitted(
            spec=spec, person=scope.person, resumed_from=old.id, resume_checkpoint=old.newest_checkpoint
        )
        return await self._submit(scope, event)

    async def _resume_event(self, scope: Scope, spec: JobSpec, reference: str) -> JobSubmitted:
        job_id, _, step = reference.partition("@")
        old = await self._journal.view(scope, job_id)
        require_intact(old)
        checkpoint = _checkpoint(old, step)
        return JobSubmitted(spec=spec, person=scope.person, resumed_from=old.id, resume_checkpoint=checkpoint)

    async def _submit(self, scope: Scope, event: JobSubmitted) -> TransactionResult:
        require_supported(event.spec, may_run_in_place=scope.organisation == self._own_organisation)
        job_id = new_job_id(self._clock, self._randomness)
        written = await self._journal.submit(scope, job_id, event, at_ms=self._clock.wall_ms())
        self._wake.set(written.view.id)
        return written


def require_migratable(view: JobView, to: str) -> None:
    """Raise Conflict if the job cannot continue at backend `to`."""
    name, placement = view.name or view.id, view.spec.placement
    if view.is_terminal or view.cancel_requested:
        doing = view.status if view.is_terminal else "being cancelled"
        raise Conflict(f"job {name} is {doing}", hint="Resume it as a new job: `anygpu resume`.")
    live, found = view.live_attempt, view.better
    better = found is not None and found.offer.backend == to
    if live is not None and live.offer.backend == to and not better:
        raise Conflict(f"job {name} already runs on backend {to}, which has no better offer for it")
    if view.spec.is_only_in_place and to != LOCAL:
        raise Conflict(
            f"job {name} runs in place, in {view.spec.in_place}, and its files were not copied",
            hint="Submit it again with `anygpu run --snapshot`; such a job can run on other machines.",
        )
    allowed = placement.allowed_backends
    if to in placement.forbidden or (allowed and to not in allowed):
        raise Conflict(
            f"job {name} may not run at {to}",
            hint="Its spec excludes it: see placement.allowed, placement.profile and placement.forbidden.",
        )


def _checkpoint(view: JobView, step: str) -> CheckpointRef | None:
    if not step:
        return view.newest_checkpoint
    for checkpoint in view.checkpoints:
        if str(checkpoint.step) == step:
            return checkpoint
    kept = ", ".join(str(c.step) for c in view.checkpoints) or "none"
    raise NotFound(
        f"job {view.name or view.id} has no checkpoint at step {step}; steps of its checkpoints: {kept}"
    )
