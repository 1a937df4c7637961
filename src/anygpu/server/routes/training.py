"""Jobs: submit, list, look, cancel, resume."""

from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Query, Request

from anygpu.errors import Forbidden, InvalidSpec, Problem
from anygpu.events.view import JobView
from anygpu.server import render
from anygpu.server.bodies import Json, read_json, read_object
from anygpu.server.documented import answers, takes
from anygpu.server.resolve import resolve
from anygpu.server.routes.examples import ACCEPTED, JOB, SPEC, SUMMARY
from anygpu.server.services import Asking, Served, Services
from anygpu.spec.doors import tenant_of, translate
from anygpu.spec.load import from_mapping
from anygpu.spec.model import JobSpec
from anygpu.store.evidence import AttemptRow, SeriesSummary
from anygpu.store.journal import JobQuery, Written
from anygpu.store.scope import Scope
from anygpu.tenancy.access import Caller

router = APIRouter(prefix="/api/v1/training", tags=["training"])

SPEC_SCHEMA = {
    "anyOf": [{"$ref": "#/components/schemas/JobSpec"}, {"$ref": "#/components/schemas/ModelAndConfig"}]
}
Ref = Annotated[str, Path(min_length=1, max_length=200, examples=["last"])]
Words = Annotated[str | None, Query(max_length=500)]
Moment = Annotated[int | None, Query(ge=0, le=2**53)]
Key = Annotated[str | None, Header(alias="Idempotency-Key", max_length=200)]


@router.post(
    "",
    status_code=201,
    responses=answers(
        "Accepted.", ACCEPTED, status=201, also={200: "This idempotency key was known: its first job."}
    ),
    openapi_extra=takes(SPEC, schema=SPEC_SCHEMA),
)
async def submit(request: Request, served: Served, asking: Asking, idempotency_key: Key = None) -> Json:
    """Submit a job: a job spec, or `{"model_name", "config"}`. The same idempotency key is the same job."""
    body = await read_json(request)
    spec = await accepted_spec(served, asking, body, idempotency_key)
    return await submitted(served, await served.jobs.submit(asking.scope, spec))


@router.get("", responses=answers("A page, newest first.", {"jobs": [SUMMARY], "next_cursor": None}))
async def page(
    served: Served,
    asking: Asking,
    status: Annotated[list[str] | None, Query(max_length=20)] = None,
    phase: Annotated[list[str] | None, Query(max_length=20)] = None,
    name: Words = None,
    tag: Words = None,
    backend: Words = None,
    person: Words = None,
    q: Words = None,
    after_ms: Moment = None,
    before_ms: Moment = None,
    cursor: Words = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 50,
) -> Json:
    """Jobs of the project, filtered; `next_cursor` asks for the next page."""
    query = JobQuery(
        status=separated(status),
        phase=separated(phase),
        name=name,
        tag=tag,
        backend=backend,
        person=person,
        text=q,
        submitted_after_ms=after_ms,
        submitted_before_ms=before_ms,
        cursor=cursor,
        limit=min(limit, served.limits.page_jobs),
    )
    found = await served.journal.find(asking.scope, query)
    return Json({"jobs": await _summaries(served, found.jobs), "next_cursor": found.next_cursor})


@router.get("/{ref}", responses=answers("The job.", JOB))
async def look(ref: Ref, served: Served, asking: Asking) -> Json:
    """One job. `ref` is an id, a unique beginning of one, a name (the newest), or `last`."""
    return Json(await whole(served, await resolve(served.journal, asking.scope, ref)))


@router.post("/{ref}/cancel", status_code=202, responses=answers("Asked to end.", JOB, status=202))
async def cancel(ref: Ref, served: Served, asking: Asking) -> Json:
    """Ask for the job's end. Asking twice is the same as once."""
    view = await resolve(served.journal, asking.scope, ref)
    return Json(await whole(served, await served.jobs.cancel(asking.scope, view.id)), 202)


@router.post(
    "/{ref}/resume",
    status_code=201,
    responses=answers("A new job goes on.", ACCEPTED, status=201, also={200: "This key was known."}),
    openapi_extra=takes({"limits": {"timeout": "2h"}}, required=False),
)
async def resume(
    ref: Ref, request: Request, served: Served, asking: Asking, idempotency_key: Key = None
) -> Json:
    """A new job from the newest checkpoint of an ended one; the body overrides fields of its spec."""
    overrides = await read_object(request)
    view = await resolve(served.journal, asking.scope, ref)
    if idempotency_key:
        overrides.setdefault("idempotency_key", idempotency_key)
    return await submitted(served, await served.jobs.resume(asking.scope, view.id, overrides))


async def accepted_spec(served: Services, asking: Caller, body: Any, key: str | None) -> JobSpec:
    """The body as a spec that can run: right tenant, known archive, an existing job to resume from."""
    require_own_tenant(asking, body)
    translated = translate(body)
    translated.mapping.pop("tenant_id", None)
    if key:
        translated.mapping.setdefault("idempotency_key", key)
    spec = from_mapping(translated.mapping, source="body", renamed=translated.renamed)
    await _require_archive(served, asking.scope, spec)
    return await _with_resume_id(served, asking.scope, spec)


def require_own_tenant(asking: Caller, body: Any) -> None:
    tenant = tenant_of(body)
    if tenant is not None and tenant != asking.scope.organisation:
        raise Forbidden("`tenant_id` is not the organisation of this token")


async def _require_archive(served: Services, scope: Scope, spec: JobSpec) -> None:
    sha256 = spec.workdir.archive if spec.workdir else None
    if sha256 is not None and not await served.uploads.has(scope.organisation, sha256):
        hint = "upload it first: PUT /api/v1/uploads/{sha256}"
        raise InvalidSpec([Problem("workdir.archive", sha256, "was not uploaded", hint, "body")])


async def _with_resume_id(served: Services, scope: Scope, spec: JobSpec) -> JobSpec:
    if spec.resume_from is None:
        return spec
    reference, at, step = spec.resume_from.partition("@")
    view = await resolve(served.journal, scope, reference)
    return spec.model_copy(update={"resume_from": f"{view.id}{at}{step}"})


async def submitted(served: Services, written: Written) -> Json:
    view, created = written.view, bool(written.recorded)
    body = {
        "id": view.id,
        "job_id": view.id,
        "execution_id": view.attempt.name if view.attempt else None,
        "status": str(view.status),
        "phase": str(view.phase),
        "position": await served.queue.position(view),
        "created": created,
    }
    return Json(body, 201 if created else 200, {"Location": f"/api/v1/training/{view.id}"})


async def whole(served: Services, view: JobView) -> render.Json:
    row = AttemptRow()
    series: tuple[SeriesSummary, ...] = ()
    if view.attempt is not None:
        row = await served.evidence.attempt(view.id, view.attempt.number)
        series = tuple(await served.evidence.series(view.id, view.attempt.number))
    position = await served.queue.position(view)
    return render.job(view, row, series, queue_position=position, now_ms=served.clock.wall_ms())


async def _summaries(served: Services, views: tuple[JobView, ...]) -> list[render.Json]:
    keys = [(view.id, len(view.attempts)) for view in views if view.attempts]
    rows = await served.evidence.attempts(keys) if keys else {}
    waiting = any(not view.terminal and view.live_attempt is None for view in views)
    turns = await served.queue.turns() if waiting else {}
    now_ms = served.clock.wall_ms()
    return [
        render.summary(
            view,
            rows.get((view.id, len(view.attempts)), AttemptRow()),
            queue_position=turns[view.id].position if view.id in turns else None,
            now_ms=now_ms,
        )
        for view in views
    ]


def separated(values: list[str] | None) -> tuple[str, ...]:
    """`?status=queued,running` and `?status=queued&status=running` are the same."""
    return tuple(part for value in values or () for part in value.split(",") if part)
