"""Machines at the providers: whose they are, what they cost, and how to end or enter one."""

from collections.abc import Awaitable
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from anygpu.backends.contract import Leftover, ListsLeftovers, OpensShell
from anygpu.errors import Conflict, InvalidSpec, NotFound, Problem
from anygpu.events.facts import Handle
from anygpu.events.view import AttemptView
from anygpu.server.encoding import format_time
from anygpu.server.http.bodies import JsonResponse, only_fields, read_object, text_field
from anygpu.server.http.openapi import JOB, JOB_ID, answers, fields, nothing, takes
from anygpu.server.jobs import render
from anygpu.server.jobs.machines import (
    MachineInventory,
    OrphanMachine,
    OwnedMachine,
    load_inventory,
    visible_machines,
)
from anygpu.server.jobs.resolve import resolve_job
from anygpu.server.routes.jobs import job_details
from anygpu.server.services import CallerDep, Services, ServicesDep
from anygpu.tenancy.auth import Role

router = APIRouter(prefix="/api/v1", tags=["machines"])

NAME = "anygpu-019b8d2f5a7c7d3e9f1a2b3c4d5e6f70-1"
Name = Annotated[str, Path(pattern="^anygpu-[A-Za-z0-9-]+$", max_length=100, examples=[NAME])]
Ref = Annotated[str, Path(min_length=1, max_length=200, examples=["last"])]
MACHINE = {
    "name": NAME,
    "backend": "aws",
    "owner": "attempt",
    "job": JOB_ID,
    "job_name": "digits",
    "attempt": 1,
    "offer": "g5.xlarge",
    "region": "us-east-1",
    "interruptible": True,
    "state": "training",
    "since": "2026-01-05T10:00:00.000Z",
    "price_microusd_per_hour": 402_000,
    "cost_microusd": 6_700,
}
LEFTOVER = {"backend": "aws", "kind": "address", "id": "eipalloc-1", "name": NAME, "region": "us-east-1"}
EVERYTHING = {"machines": [MACHINE], "leftovers": [LEFTOVER], "silent": {}}
SWEPT = {"machines": [], "leftovers": [LEFTOVER], "troubles": {}}
SHELL = {"host": "203.0.113.7", "port": 22, "user": "ubuntu", "private_key": "…", "host_keys": []}


@router.get("/machines", responses=answers("As the providers list them now.", EVERYTHING))
async def list_machines(services: ServicesDep, caller: CallerDep) -> JsonResponse:
    """The project's machines; administrators also see those that no job owns, and what machines left behind."""
    found = await load_inventory(services.backends, services.journal)
    now_ms = services.clock.wall_ms()
    shown = [_render_owned(each, now_ms) for each in visible_machines(found, caller.scope)]
    rest = caller.role.includes(Role.OPERATOR)
    return JsonResponse(
        {
            "machines": [*shown, *(_render_orphan(each) for each in found.orphans if rest)],
            "leftovers": [_render_leftover(backend, each) for backend, each in found.leftovers if rest],
            "silent": dict(found.unreachable) if rest else {},
        }
    )


@router.delete(
    "/machines/{name}", status_code=204, responses=nothing("Asked to end."), response_class=Response
)
async def end_machine(
    name: Name, services: ServicesDep, caller: CallerDep, force: Annotated[bool, Query()] = False
) -> Response:
    """End a machine. One that a job uses only with `force`: the job then goes on elsewhere."""
    found = await load_inventory(services.backends, services.journal)
    backend, handle = _find_machine(found, name, caller.role.includes(Role.OPERATOR), force, caller.scope)
    await services.backends[backend].terminate(handle)
    return Response(None, 204)


@router.post("/sweep", responses=answers("What was found without an owner, and is being ended.", SWEPT))
async def sweep_machines(services: ServicesDep, caller: CallerDep) -> JsonResponse:
    """End every machine no attempt owns and everything machines left behind, now. The server does so by itself too."""
    caller.require(Role.OPERATOR)
    found = await load_inventory(services.backends, services.journal)
    troubles = dict(found.unreachable)
    for orphan in found.orphans:
        await _collect_failure(
            services.backends[orphan.backend].terminate(orphan.handle), orphan.handle.name, troubles
        )
    for name, leftover in found.leftovers:
        backend = services.backends[name]
        if isinstance(backend, ListsLeftovers):
            await _collect_failure(backend.remove(leftover), leftover.id, troubles)
    return JsonResponse(
        {
            "machines": [_render_orphan(each) for each in found.orphans],
            "leftovers": [_render_leftover(backend, each) for backend, each in found.leftovers],
            "troubles": troubles,
        }
    )


async def _collect_failure(work: Awaitable[None], what: str, troubles: dict[str, str]) -> None:
    try:
        await work
    except Exception as error:  # noqa: BLE001  whatever an adapter raises must not shield the rest
        troubles[what] = str(error) or type(error).__name__


@router.post(
    "/training/{ref}/migrate",
    status_code=202,
    responses=answers("Asked to move.", JOB, status=202),
    openapi_extra=takes({"to": "lambda"}, schema=fields(to="string") | {"required": ["to"]}),
)
async def migrate_job(ref: Ref, request: Request, services: ServicesDep, caller: CallerDep) -> JsonResponse:
    """Save, stop, and go on at another backend; where that cannot take it now, its plan decides."""
    view = await resolve_job(services.journal, caller.scope, ref)
    body = await read_object(request)
    only_fields(body, "to")
    to = text_field(body, "to")
    known = [name for name in services.backends if services.backends.visible(name, caller.scope.organisation)]
    if to not in known:
        raise InvalidSpec(
            [Problem("to", to, f"{to!r} is not a backend here", f"known: {', '.join(known)}", "body")]
        )
    return JsonResponse(
        await job_details(services, await services.jobs.migrate(caller.scope, view.id, to)), 202
    )


@router.post("/training/{ref}/release", status_code=202, responses=answers("Given up.", JOB, status=202))
async def release_machine(ref: Ref, services: ServicesDep, caller: CallerDep) -> JsonResponse:
    """Give up the machine that is kept after a failure."""
    view = await resolve_job(services.journal, caller.scope, ref)
    return JsonResponse(await job_details(services, await services.jobs.release(caller.scope, view.id)), 202)


@router.get("/training/{ref}/shell", responses=answers("How to log in.", SHELL))
async def get_shell(ref: Ref, services: ServicesDep, caller: CallerDep) -> JsonResponse:
    """The address and the key of the machine the job runs on now."""
    caller.require(Role.MEMBER)
    view = await resolve_job(services.journal, caller.scope, ref)
    attempt = next((each for each in reversed(view.attempts) if not each.released), None)
    if attempt is None:
        raise Conflict(f"job {view.name or view.id} has no machine now; it is {view.status}")
    opened = await _shell_backend(services, attempt).shell(attempt.handle or Handle(name=attempt.name))
    return JsonResponse(
        {
            "host": opened.host,
            "port": opened.port,
            "user": opened.user,
            "private_key": opened.private_key,
            "host_keys": list(opened.host_keys),
        }
    )


def _shell_backend(services: Services, attempt: AttemptView) -> OpensShell:
    backend = services.backends.get(attempt.offer.backend)
    if backend is None:
        raise Conflict(f"the backend {attempt.offer.backend!r} is not configured any more")
    if not isinstance(backend, OpensShell):
        raise Conflict(f"{attempt.offer.backend} opens no shell; the job runs on the server's own machine")
    return backend


def _find_machine(
    found: MachineInventory, name: str, operator: bool, force: bool, scope: Any
) -> tuple[str, Handle]:
    for orphan in found.orphans if operator else ():
        if orphan.handle.name == name:
            return orphan.backend, orphan.handle
    for owned in visible_machines(found, scope):
        if owned.attempt.name == name:
            if not force:
                raise Conflict(
                    f"{name} is used by job {owned.view.name or owned.view.id}",
                    hint="Cancel the job, or end the machine with --force: the job goes on elsewhere.",
                )
            return owned.backend, owned.attempt.handle or Handle(name=name)
    raise NotFound(f"there is no machine {name!r}", hint="`anygpu machine ls` shows them.")


def _render_owned(each: OwnedMachine, now_ms: int) -> dict[str, Any]:
    attempt, offer = each.attempt, each.attempt.offer
    return {
        "name": attempt.name,
        "backend": each.backend,
        "owner": "attempt",
        "job": each.view.id,
        "job_name": each.view.name,
        "attempt": attempt.number,
        "offer": offer.name,
        "region": offer.region,
        "interruptible": offer.interruptible,
        "state": render.attempt_phase(attempt) if each.listed else "unlisted",
        "since": format_time(attempt.launching_at_ms),
        "price_microusd_per_hour": offer.price_microusd_per_hour,
        "cost_microusd": render.attempt_cost_microusd(attempt, now_ms),
    }


def _render_orphan(each: OrphanMachine) -> dict[str, Any]:
    nothing_known = dict.fromkeys(("job", "job_name", "attempt", "since", "cost_microusd"))
    unknown = {"offer": "", "region": "", "interruptible": False, "price_microusd_per_hour": 0}
    return {
        "name": each.handle.name,
        "backend": each.backend,
        "owner": "nobody",
        "state": "orphan",
        **nothing_known,
        **unknown,
    }


def _render_leftover(backend: str, each: Leftover) -> dict[str, Any]:
    return {"backend": backend, "kind": each.kind, "id": each.id, "name": each.name, "region": each.region}
