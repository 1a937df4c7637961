"""Submit, start, cancel, migrate, resume, release and delete jobs.

Each operation writes an event; the supervisor then acts on the event.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from anygpu.control.clock import Clock, Randomness, WakeSignal
from anygpu.control.ids import new_job_id
from anygpu.control.resume import find_resume_point
from anygpu.errors import AnygpuError, Conflict, InvalidSpec, NotFound
from anygpu.events.facts import CheckpointRef
from anygpu.events.offers import LOCAL
from anygpu.events.types import (
    CancelRequested,
    Event,
    HoldEnded,
    JobEdited,
    JobSubmitted,
    MigrateRequested,
    StartRequested,
)
from anygpu.events.view import JobView
from anygpu.spec.checks.trainer import trainer_problems
from anygpu.spec.checks.unsupported import unsupported_fields
from anygpu.spec.checks.workdir import workdir_problems
from anygpu.spec.flags import merge
from anygpu.spec.jobspec import JobSpec
from anygpu.spec.load import from_mapping
from anygpu.store.blobs.checkpoints import Checkpoints
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


@dataclass(frozen=True, slots=True, kw_only=True)
class EditedFields:
    """New values of what a user can edit after submission. None: unchanged."""

    name: str | None = None
    tags: tuple[str, ...] | None = None
    notes: str | None = None


class CheckSubmission(Protocol):
    """A check that raises an error if a job cannot be accepted. It waits for providers for a short time only."""

    async def __call__(self, spec: JobSpec, organisation: str) -> None: ...


async def accept_all(spec: JobSpec, organisation: str) -> None:
    """Accept every job. Used where no check is needed."""


class Jobs:
    """Handles requests about jobs: checks them, writes an event and wakes the control loop."""

    def __init__(
        self,
        journal: Journal,
        reports: Reports,
        checkpoints: Checkpoints,
        clock: Clock,
        randomness: Randomness,
        wake: WakeSignal,
        own_organisation: str = "local",
        check: CheckSubmission = accept_all,
    ) -> None:
        self._journal = journal
        self._reports = reports
        self._checkpoints = checkpoints
        self._clock = clock
        self._randomness = randomness
        self._wake = wake
        self._own_organisation = own_organisation
        self._check = check

    async def submit(self, scope: Scope, spec: JobSpec) -> TransactionResult:
        """Accept a job.

        If a job with the same idempotency key exists, return that job, with an empty `recorded`.
        """
        event = JobSubmitted(spec=spec, person=scope.person)
        if spec.resume_from is not None:
            old = await self._journal.view(scope, spec.resume_job or "")
            event = await self._resume_event(scope, spec, old, spec.resume_step)
        return await self._submit(scope, event)

    async def cancel(self, scope: Scope, job_id: str) -> JobView:
        """Request the cancellation of a job.

        A repeated request, or one for a finished job, changes nothing.
        """

        def decide(view: JobView) -> list[Event]:
            done = view.is_terminal or view.cancel_requested
            return [] if done else [CancelRequested(person=scope.person)]

        return await self._transact(scope, job_id, decide)

    async def edit(self, scope: Scope, job_id: str, change: Callable[[JobView], EditedFields]) -> JobView:
        """Change the name, tags or notes of a job, also after its end. Values that stay the same write no event."""

        def decide(view: JobView) -> list[Event]:
            edited = change(view)
            new = JobEdited(
                name=None if edited.name in (None, view.name) else edited.name,
                tags=None if edited.tags in (None, view.tags) else edited.tags,
                notes=None if edited.notes in (None, view.notes) else edited.notes,
            )
            return [] if new == JobEdited() else [replace(new, person=scope.person)]

        written = await self._journal.transact(scope, job_id, decide, at_ms=self._clock.wall_ms())
        return written.view

    async def start(self, scope: Scope, job_id: str) -> JobView:
        """Ask to start a waiting job before the other waiting jobs of its project.

        Capacity, quotas and budgets apply as before. A repeated request, or one for a job that already runs,
        changes nothing.
        """

        def decide(view: JobView) -> list[Event]:
            if view.is_terminal or view.cancel_requested:
                doing = view.status if view.is_terminal else "being cancelled"
                raise Conflict(
                    f"Job {view.name or view.id} cannot be started: it is {doing}",
                    hint="Submit it again with `anygpu run`, or continue it as a new job with `anygpu resume`.",
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
        """Give up the machine that is kept for inspection after a failure. A repeated request changes nothing."""

        def decide(view: JobView) -> list[Event]:
            held = [a.number for a in view.attempts if a.is_held]
            if not held and not any(a.hold_ended for a in view.attempts):
                raise Conflict(
                    f"Job {view.name or view.id} holds no machine that could be released; the job is {view.phase}. "
                    "Only a job that failed with `placement.hold_on_failure` set holds its machine."
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

    async def resume(
        self, scope: Scope, job_id: str, overrides: Mapping[str, Any], step: int | None = None
    ) -> TransactionResult:
        """Submit a new job that continues from a checkpoint of an ended job: the newest, or that of `step`.

        `overrides` replace fields of the ended job's spec.
        """
        old = await self._journal.view(scope, job_id)
        require_intact(old)
        if not old.is_terminal:
            raise Conflict(
                f"Job {old.name or old.id} cannot be resumed yet: it is still {old.status}",
                hint="Wait until it ends, or cancel it with `anygpu cancel`.",
            )
        same = old.spec.model_dump(
            mode="json", exclude_defaults=True, exclude={"idempotency_key", "resume_from"}
        )
        same |= {"name": old.name or None, "tags": list(old.tags)}
        spec = from_mapping(merge(same, overrides), source="resume")
        return await self._submit(scope, await self._resume_event(scope, spec, old, step))

    async def _resume_event(
        self, scope: Scope, spec: JobSpec, old: JobView, step: int | None
    ) -> JobSubmitted:
        """Return the submission of a job that continues `old`.

        It has all checkpoints up to the one to resume from, so that the scheduler can use an older one if that
        one is damaged by then.
        """
        require_intact(old)
        checkpoints = old.checkpoints if step is None else _checkpoints_until(old, step)
        if checkpoints:
            require_same_world_size(spec, old)
        if step is not None:
            await self._require_undamaged(old, checkpoints[-1])
        return JobSubmitted(
            spec=spec,
            person=scope.person,
            resumed_from=old.id,
            resume_checkpoint=checkpoints[-1] if checkpoints else None,
            resume_checkpoints=checkpoints,
        )

    async def _require_undamaged(self, view: JobView, chosen: CheckpointRef) -> None:
        """Raise Conflict if the checkpoint that a user has chosen is damaged, naming those that are not."""
        found = await find_resume_point(self._checkpoints, [chosen])
        if found.checkpoint is not None:
            return
        others = [c for c in view.checkpoints if c.id != chosen.id]
        intact = [c.step for c in others if await self._checkpoints.is_intact(c.manifest)]
        steps = ", ".join(map(str, intact)) or "none"
        raise Conflict(
            f"The checkpoint of step {chosen.step} of job {view.name or view.id} is damaged; its intact "
            f"checkpoints are of these steps: {steps}",
            hint="Choose one of these steps, or give no step to use the newest intact checkpoint.",
        )

    async def _submit(self, scope: Scope, event: JobSubmitted) -> TransactionResult:
        require_supported(event.spec, may_run_in_place=scope.organisation == self._own_organisation)
        try:
            await self._check(event.spec, scope.organisation)
        except AnygpuError:
            earlier = await self._job_with_same_key(scope, event.spec)
            if earlier is None:
                raise
            return TransactionResult(view=earlier, recorded=())
        job_id = new_job_id(self._clock, self._randomness)
        written = await self._journal.submit(scope, job_id, event, at_ms=self._clock.wall_ms())
        self._wake.set(written.view.id)
        return written

    async def _job_with_same_key(self, scope: Scope, spec: JobSpec) -> JobView | None:
        key = spec.idempotency_key
        return None if key is None else await self._journal.job_with_key(scope, key)


def require_same_world_size(spec: JobSpec, old: JobView) -> None:
    """Raise Conflict if the checkpoints were saved by another number of processes than the job has.

    Built-in trainers may load them, because rank 0 saves the whole state.
    """
    saved, wanted = old.spec.world_size, spec.world_size
    if saved == wanted or spec.trainer is not None or spec.checkpoint.any_world_size:
        return
    raise Conflict(
        f"The checkpoints of job {old.name or old.id} were saved by {_processes(saved)}, and the new job has "
        f"{_processes(wanted)}",
        hint="Use the same nodes and processes_per_node, or set checkpoint.any_world_size: true if the script can "
        "load them.",
    )


def _processes(count: int) -> str:
    return "1 process" if count == 1 else f"{count} processes"


def require_migratable(view: JobView, to: str) -> None:
    """Raise Conflict if the job cannot continue at backend `to`."""
    name, placement = view.name or view.id, view.spec.placement
    if view.is_terminal or view.cancel_requested:
        doing = view.status if view.is_terminal else "being cancelled"
        raise Conflict(
            f"Job {name} cannot be moved: it is {doing}",
            hint="Continue it as a new job with `anygpu resume`.",
        )
    live, found = view.live_attempt, view.better
    better = found is not None and found.offer.backend == to
    if live is not None and live.offer.backend == to and not better:
        raise Conflict(
            f"Job {name} already runs on the backend {to}, which has no better machine for it. Name another "
            "backend."
        )
    if view.spec.is_only_in_place and to != LOCAL:
        raise Conflict(
            f"Job {name} cannot be moved: it runs in the directory {view.spec.in_place} itself, and its files "
            "were not uploaded",
            hint="Submit it again with `anygpu run --snapshot`; such a job can run on other machines.",
        )
    allowed = placement.allowed_backends
    if to in placement.forbidden or (allowed and to not in allowed):
        raise Conflict(
            f"Job {name} may not run on the backend {to}: its spec excludes it",
            hint="Name another backend, or submit a job with other values of placement.allowed, placement.profile "
            "and placement.forbidden.",
        )


def _checkpoints_until(view: JobView, step: int) -> tuple[CheckpointRef, ...]:
    """Return the checkpoints up to the newest one of `step`, oldest first. Raise NotFound if there is none."""
    index = max((n for n, each in enumerate(view.checkpoints) if each.step == step), default=None)
    if index is None:
        kept = ", ".join(str(c.step) for c in view.checkpoints) or "none"
        raise NotFound(
            f"Job {view.name or view.id} has no checkpoint of step {step}. Choose one of the steps of its "
            f"checkpoints: {kept}"
        )
    return view.checkpoints[: index + 1]
