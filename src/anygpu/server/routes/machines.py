"""Machines at the providers: whose they are, what they cost, and how to end or enter one."""

from collections.abc import Awaitable
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from anygpu.backends.contract import Leftover, ListsLeftovers, OpensShell
from anygpu.errors import Conflict, InvalidSpec, NotFound, Problem
from anygpu.events.facts import Handle
from anygpu.events.view import AttemptView
from anygpu.server import machines_look, render
from anygpu.server.bodies import Json, only_fields, read_object, text_field
from anygpu.server.documented import answers, fields, nothing, takes
from anygpu.server.hub import iso
from anygpu.server.machines_look import Found, Orphan, Owned
from anygpu.server.resolve import resolve
from anygpu.server.routes.examples import JOB, JOB_ID
from anygpu.server.routes.training import whole
from anygpu.server.services import Asking, Served, Services
from anygpu.tenancy.access import Role

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
async def every(served: Served, asking: Asking) -> Json:
    """The project's machines; administrators also see those that no job owns, and what machines left behind."""
    found = await machines_look.look(served.backends, served.journal)
    now_ms = served.clock.wall_ms()
    shown = [_owned(each, now_ms) for each in machines_look.theirs(found, asking.scope)]
    rest = asking.role.covers(Role.OPERATOR)
    return Json(
        {
            "machines": [*shown, *(_orphan(each) for each in found.orphans if rest)],
            "leftovers": [_leftover(backend, each) for backend, each in found.leftovers if rest],
            "silent": dict(found.silent) if rest else {},
        }
    )


@router.delete(
    "/machines/{name}", status_code=204, responses=nothing("Asked to end."), response_class=Response
)
async def end(
    name: Name, served: Served, asking: Asking, force: Annotated[bool, Query()] = False
) -> Response:
    """End a machine. One that a job uses only with `force`: the job then goes on elsewhere."""
    found = await machines_look.look(served.backends, served.journal)
    backend, handle = _to_end(found, name, asking.role.covers(Role.OPERATOR), force, asking.scope)
    await served.backends[backend].terminate(handle)
    return Response(None, 204)


@router.post("/sweep", responses=answers("What was found without an owner, and is being ended.", SWEPT))
async def sweep(served: Served, asking: Asking) -> Json:
    """End every machine no attempt owns and everything machines left behind, now. The server does so by itself too."""
    asking.require(Role.OPERATOR)
    found = await machines_look.look(served.backends, served.journal)
    troubles = dict(found.silent)
    for orphan in found.orphans:
        await _tried(served.backends[orphan.backend].terminate(orphan.handle), orphan.handle.name, troubles)
    for name, leftover in found.leftovers:
        backend = served.backends[name]
        if isinstance(backend, ListsLeftovers):
            await _tried(backend.remove(leftover), leftover.id, troubles)
    return Json(
        {
            "machines": [_orphan(each) for each in found.orphans],
            "leftovers": [_leftover(backend, each) for backend, each in found.leftovers],
            "troubles": troubles,
        }
    )


async def _tried(work: Awaitable[None], what: str, troubles: dict[str, str]) -> None:
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
async def migrate(ref: Ref, request: Request, served: Served, asking: Asking) -> Json:
    """Save, stop, and go on at another backend; where that cannot take it now, its plan decides."""
    view = await resolve(served.journal, asking.scope, ref)
    body = await read_object(request)
    only_fields(body, "to")
    to = text_field(body, "to")
    known = [name for name in served.backends if served.backends.visible(name, asking.scope.organisation)]
    if to not in known:
        raise InvalidSpec(
            [Problem("to", to, f"{to!r} is not a backend here", f"known: {', '.join(known)}", "body")]
        )
    return Json(await whole(served, await served.jobs.migrate(asking.scope, view.id, to)), 202)


@router.post("/training/{ref}/release", status_code=202, responses=answers("Given up.", JOB, status=202))
async def release(ref: Ref, served: Served, asking: Asking) -> Json:
    """Give up the machine that is kept after a failure."""
    view = await resolve(served.journal, asking.scope, ref)
    return Json(await whole(served, await served.jobs.release(asking.scope, view.id)), 202)


@router.get("/training/{ref}/shell", responses=answers("How to log in.", SHELL))
async def shell(ref: Ref, served: Served, asking: Asking) -> Json:
    """The address and the key of the machine the job runs on now."""
    asking.require(Role.MEMBER)
    view = await resolve(served.journal, asking.scope, ref)
    attempt = next((each for each in reversed(view.attempts) if not each.released), None)
    if attempt is None:
        raise Conflict(f"job {view.name or view.id} has no machine now; it is {view.status}")
    opened = await _opener(served, attempt).shell(attempt.handle or Handle(name=attempt.name))
    return Json(
        {
            "host": opened.host,
            "port": opened.port,
            "user": opened.user,
            "private_key": opened.private_key,
            "host_keys": list(opened.host_keys),
        }
    )


def _opener(served: Services, attempt: AttemptView) -> OpensShell:
    backend = served.backends.get(attempt.offer.backend)
    if backend is None:
        raise Conflict(f"the backend {attempt.offer.backend!r} is not configured any more")
    if not isinstance(backend, OpensShell):
        raise Conflict(f"{attempt.offer.backend} opens no shell; the job runs on the server's own machine")
    return backend


def _to_end(found: Found, name: str, operator: bool, force: bool, scope: Any) -> tuple[str, Handle]:
    for orphan in found.orphans if operator else ():
        if orphan.handle.name == name:
            return orphan.backend, orphan.handle
    for owned in machines_look.theirs(found, scope):
        if owned.attempt.name == name:
            if not force:
                raise Conflict(
                    f"{name} is used by job {owned.view.name or owned.view.id}",
                    hint="Cancel the job, or end the machine with --force: the job goes on elsewhere.",
                )
            return owned.backend, owned.attempt.handle or Handle(name=name)
    raise NotFound(f"there is no machine {name!r}", hint="`anygpu machine ls` shows them.")


def _owned(each: Owned, now_ms: int) -> dict[str, Any]:
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
        "since": iso(attempt.launching_at_ms),
        "price_microusd_per_hour": offer.price_microusd_per_hour,
        "cost_microusd": render.attempt_cost_microusd(attempt, now_ms),
    }


def _orphan(each: Orphan) -> dict[str, Any]:
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


def _leftover(backend: str, each: Leftover) -> dict[str, Any]:
    return {"backend": backend, "kind": each.kind, "id": each.id, "name": each.name, "region": each.region}
