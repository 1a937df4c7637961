"""Routes for machines at the providers: list them, end them, remove leftovers, move jobs, and SSH access."""

from collections.abc import Awaitable
from typing import Annotated

from fastapi import Depends, Path, Query
from starlette.responses import Response

from anygpu.api.base import MACHINE
from anygpu.api.jobs import JobDetails, MigrationRequest
from anygpu.api.machines import (
    HostList,
    LeftoverResource,
    MachineDetails,
    MachineList,
    ShellCredentials,
    SweepReport,
)
from anygpu.backends.contract import Leftover, SupportsLeftovers, SupportsShell
from anygpu.errors import Conflict, InvalidSpec, NotFound, Problem
from anygpu.events.offers import Handle, Offer
from anygpu.events.view import AttemptView, JobView
from anygpu.server.encoding import format_optional_time, format_time
from anygpu.server.http.bodies import JsonResponse
from anygpu.server.http.route import JsonBody, api_router
from anygpu.server.jobs.attempts import attempt_cost_microusd, attempt_phase
from anygpu.server.jobs.hosts import list_hosts
from anygpu.server.jobs.machines import (
    MachineInventory,
    OrphanMachine,
    OwnedMachine,
    load_inventory,
    visible_machines,
    with_origins,
)
from anygpu.server.jobs.queue import is_visible
from anygpu.server.jobs.resolve import resolve_job
from anygpu.server.routes.training.jobs import JobRef, job_details
from anygpu.server.services import CallerDep, Services, ServicesDep
from anygpu.store.scope import Scope
from anygpu.tenancy.auth import Role

router = api_router("/api/v1", tag="machines")

Name = Annotated[str, Path(pattern="^anygpu-[A-Za-z0-9-]+$", max_length=100, examples=[MACHINE])]


async def get_view(ref: JobRef, services: ServicesDep, caller: CallerDep) -> JobView:
    """Return the job named in the path. A dependency, so it runs before the request body is read."""
    return await resolve_job(services.journal, caller.scope, ref)


JobDep = Annotated[JobView, Depends(get_view)]
MigrationBody = Annotated[MigrationRequest, Depends(JsonBody(MigrationRequest))]


@router.get("/machines", response_description="As the providers list them now.")
async def list_machines(services: ServicesDep, caller: CallerDep) -> MachineList:
    """List the project's machines. The operator also gets machines without a job, and leftover resources."""
    inventory = await load_inventory(services.backends, services.journal)
    now_ms = services.clock.wall_ms()
    machines = [_render_owned(each, now_ms) for each in visible_machines(inventory, caller.scope)]
    if not caller.role.includes(Role.OPERATOR):
        return MachineList(machines=machines, leftovers=[], silent={})
    orphans = await with_origins(services.journal, inventory.orphans)
    return MachineList(
        machines=[*machines, *(_render_orphan(each) for each in orphans)],
        leftovers=[_render_leftover(backend, each) for backend, each in inventory.leftovers],
        silent=dict(inventory.unreachable),
    )


@router.get("/hosts", response_description="As they answered last.")
async def show_hosts(services: ServicesDep, caller: CallerDep) -> HostList:
    """List your own machines: this server's and the SSH hosts, with their GPUs and the project's jobs on them."""
    live = [view for view in await services.queue.live() if is_visible(view, caller.scope)]
    running = [view for view in live if view.live_attempt is not None]
    rows = (
        await services.reports.states([(view.id, len(view.attempts)) for view in running]) if running else {}
    )
    telemetry = {job_id: row.telemetry for (job_id, _), row in rows.items()}
    entries = services.backends.entries(caller.scope.organisation)
    positions = await services.queue.positions()
    waiting = [view for view in live if view.id in positions]
    hosts = await list_hosts(entries, running, telemetry, await services.host_telemetry.latest(), waiting)
    return HostList(hosts=hosts, waiting=len(waiting))


@router.delete(
    "/machines/{name}", status_code=204, response_description="End requested.", response_class=Response
)
async def end_machine(
    name: Name, services: ServicesDep, caller: CallerDep, force: Annotated[bool, Query()] = False
) -> Response:
    """End a machine. If a job uses the machine, `force` is needed; the job then continues on another one."""
    inventory = await load_inventory(services.backends, services.journal)
    operator = caller.role.includes(Role.OPERATOR)
    backend, handle = _find_machine(inventory, name, caller.scope, operator=operator, force=force)
    await services.backends[backend].terminate(handle)
    return Response(None, 204)


@router.post("/sweep", response_description="Resources without an owner, which are being ended.")
async def sweep_machines(services: ServicesDep, caller: CallerDep) -> SweepReport:
    """End every machine and remove every leftover resource without an owner now. This also happens periodically."""
    caller.require(Role.OPERATOR)
    inventory = await load_inventory(services.backends, services.journal)
    failures = dict(inventory.unreachable)
    for orphan in inventory.orphans:
        termination = services.backends[orphan.backend].terminate(orphan.handle)
        await _collect_failure(termination, orphan.handle.name, failures)
    for name, leftover in inventory.leftovers:
        backend = services.backends[name]
        if isinstance(backend, SupportsLeftovers):
            await _collect_failure(backend.remove(leftover), leftover.id, failures)
    orphans = await with_origins(services.journal, inventory.orphans)
    return SweepReport(
        machines=[_render_orphan(each) for each in orphans],
        leftovers=[_render_leftover(backend, each) for backend, each in inventory.leftovers],
        troubles=failures,
    )


async def _collect_failure(work: Awaitable[None], resource: str, failures: dict[str, str]) -> None:
    try:
        await work
    except Exception as error:  # noqa: BLE001  one failing adapter must not stop the rest
        failures[resource] = str(error) or type(error).__name__


@router.post(
    "/training/{ref}/migrate",
    status_code=202,
    response_model=JobDetails,
    response_description="Migration requested.",
)
async def migrate_job(
    view: JobDep, body: MigrationBody, services: ServicesDep, caller: CallerDep
) -> JsonResponse:
    """Save a checkpoint, stop the job, and continue it on another backend.

    If that backend has no capacity, the job continues on the best offer of its plan.
    """
    organisation = caller.scope.organisation
    known = [name for name in services.backends if services.backends.visible(name, organisation)]
    if body.to not in known:
        hint = f"the backends are {', '.join(known)}"
        raise InvalidSpec([Problem("to", body.to, f"there is no backend {body.to!r}", hint, "body")])
    migrating = await services.jobs.migrate(caller.scope, view.id, body.to)
    return JsonResponse(await job_details(services, migrating), 202)


@router.post(
    "/training/{ref}/release",
    status_code=202,
    response_model=JobDetails,
    response_description="Release requested.",
)
async def release_machine(ref: JobRef, services: ServicesDep, caller: CallerDep) -> JsonResponse:
    """Give up the machine that is kept after the job failed (`hold_on_failure`)."""
    view = await resolve_job(services.journal, caller.scope, ref)
    released = await services.jobs.release(caller.scope, view.id)
    return JsonResponse(await job_details(services, released), 202)


@router.get("/training/{ref}/shell", response_description="How to log in.")
async def get_shell(ref: JobRef, services: ServicesDep, caller: CallerDep) -> ShellCredentials:
    """Show the address and key of the machine on which the job runs now."""
    caller.require(Role.MEMBER)
    view = await resolve_job(services.journal, caller.scope, ref)
    attempt = next((each for each in reversed(view.attempts) if not each.is_released), None)
    if attempt is None:
        raise Conflict(
            f"Job {view.name or view.id} has no machine to log in to now; its status is {view.status}. Try "
            "again when it runs."
        )
    shell = await _shell_backend(services, attempt).shell(attempt.handle or Handle(name=attempt.name))
    return ShellCredentials(
        host=shell.host,
        port=shell.port,
        user=shell.user,
        private_key=shell.private_key,
        host_keys=list(shell.host_keys),
    )


def _shell_backend(services: Services, attempt: AttemptView) -> SupportsShell:
    backend = services.backends.get(attempt.offer.backend)
    if backend is None:
        raise Conflict(
            f"The backend {attempt.offer.backend!r} of the job's machine is no longer configured. Add it "
            "again to reach its machines."
        )
    if not isinstance(backend, SupportsShell):
        raise Conflict(
            f"The backend {attempt.offer.backend!r} offers no SSH login. Jobs on the backend `local` run on "
            "the server's own machine; log in there."
        )
    return backend


def _find_machine(
    inventory: MachineInventory, name: str, scope: Scope, *, operator: bool, force: bool
) -> tuple[str, Handle]:
    for orphan in inventory.orphans if operator else ():
        if orphan.handle.name == name:
            return orphan.backend, orphan.handle
    for owned in visible_machines(inventory, scope):
        if owned.attempt.name == name:
            if not force:
                raise Conflict(
                    f"The machine {name} is used by job {owned.view.name or owned.view.id}",
                    hint="Cancel the job, or end the machine with --force: the job then continues on another one.",
                )
            return owned.backend, owned.attempt.handle or Handle(name=name)
    raise NotFound(
        f"There is no machine with the name {name!r}", hint="`anygpu machine ls` lists the machines."
    )


def _render_owned(machine: OwnedMachine, now_ms: int) -> MachineDetails:
    attempt, offer = machine.attempt, machine.attempt.offer
    return MachineDetails(
        name=attempt.name,
        backend=machine.backend,
        owner="attempt",
        job=machine.view.id,
        job_name=machine.view.name,
        attempt=attempt.number,
        offer=offer.name,
        gpu=offer.gpu_kind,
        gpus=offer.gpu_count,
        region=offer.region,
        interruptible=offer.interruptible,
        state=attempt_phase(attempt) if machine.listed else "unlisted",
        held_until=format_optional_time(attempt.held_until_ms) if attempt.is_held else None,
        since=format_time(attempt.launching_at_ms),
        price_microusd_per_hour=attempt.hourly_microusd,
        cost_microusd=attempt_cost_microusd(attempt, now_ms),
    )


def _render_orphan(machine: OrphanMachine) -> MachineDetails:
    """Describe a machine without a job. What is not known of it stays empty or null; its cost is never known."""
    origin = machine.origin
    offer = origin.offer if origin is not None else Offer(backend=machine.backend)
    return MachineDetails(
        name=machine.handle.name,
        backend=machine.backend,
        owner="nobody",
        job=None,
        job_name=None,
        attempt=None,
        offer=offer.name,
        gpu=offer.gpu_kind,
        gpus=offer.gpu_count,
        region=offer.region or str(machine.handle.native.get("region", "")),
        interruptible=offer.interruptible,
        state="orphan",
        since=format_time(origin.launching_at_ms) if origin is not None else None,
        price_microusd_per_hour=origin.node_hourly_microusd if origin is not None else None,
        cost_microusd=None,
    )


def _render_leftover(backend: str, leftover: Leftover) -> LeftoverResource:
    return LeftoverResource(
        backend=backend, kind=leftover.kind, id=leftover.id, name=leftover.name, region=leftover.region
    )
