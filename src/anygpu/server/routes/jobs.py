"""Jobs: submit, list, look, cancel, resume."""

from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Query, Request

from anygpu.errors import Forbidden, InvalidSpec, Problem
from anygpu.events.view import JobView
from anygpu.server.http.bodies import JsonResponse, read_json, read_object
from anygpu.server.http.openapi import ACCEPTED, JOB, SPEC, SUMMARY, answers, takes
from anygpu.server.jobs import render
from anygpu.server.jobs.resolve import resolve_job
from anygpu.server.services import CallerDep, Services, ServicesDep
from anygpu.spec.doors import tenant_of, translate
from anygpu.spec.load import from_mapping
from anygpu.spec.model import JobSpec
from anygpu.store.evidence import AttemptRow, SeriesSummary
from anygpu.store.journal import JobQuery, Written
from anygpu.store.scope import Scope
from anygpu.tenancy.auth import Caller

router = APIRouter(prefix="/api/v1/training", tags=["training"])

SPEC_SCHEMA = {
    "anyOf": [{"$ref": "#/components/schemas/JobSpec"}, {"$ref": "#/components/schemas/ModelAndConfig"}]
}
JobRef = Annotated[str, Path(min_length=1, max_length=200, examples=["last"])]
Text = Annotated[str | None, Query(max_length=500)]
TimeMs = Annotated[int | None, Query(ge=0, le=2**53)]
IdempotencyKey = Annotated[str | None, Header(alias="Idempotency-Key", max_length=200)]


@router.post(
    "",
    status_code=201,
    responses=answers(
        "Accepted.", ACCEPTED, status=201, also={200: "This idempotency key was known: its first job."}
    ),
    openapi_extra=takes(SPEC, schema=SPEC_SCHEMA),
)
async def submit_job(
    request: Request, services: ServicesDep, caller: CallerDep, idempotency_key: IdempotencyKey = None
) -> JsonResponse:
    """Submit a job: a job spec, or `{"model_name", "config"}`. The same idempotency key is the same job."""
    body = await read_json(request)
    spec = await parse_spec(services, caller, body, idempotency_key)
    return await submission_response(services, await services.jobs.submit(caller.scope, spec))


@router.get("", responses=answers("A page, newest first.", {"jobs": [SUMMARY], "next_cursor": None}))
async def list_jobs(
    services: ServicesDep,
    caller: CallerDep,
    status: Annotated[list[str] | None, Query(max_length=20)] = None,
    phase: Annotated[list[str] | None, Query(max_length=20)] = None,
    name: Text = None,
    tag: Text = None,
    backend: Text = None,
    person: Text = None,
    q: Text = None,
    after_ms: TimeMs = None,
    before_ms: TimeMs = None,
    cursor: Text = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 50,
) -> JsonResponse:
    """Jobs of the project, filtered; `next_cursor` asks for the next page."""
    query = JobQuery(
        status=split_values(status),
        phase=split_values(phase),
        name=name,
        tag=tag,
        backend=backend,
        person=person,
        text=q,
        submitted_after_ms=after_ms,
        submitted_before_ms=before_ms,
        cursor=cursor,
        limit=min(limit, services.limits.page_jobs),
    )
    found = await services.journal.find(caller.scope, query)
    return JsonResponse(
        {"jobs": await _job_summaries(services, found.jobs), "next_cursor": found.next_cursor}
    )


@router.get("/{ref}", responses=answers("The job.", JOB))
async def get_job(ref: JobRef, services: ServicesDep, caller: CallerDep) -> JsonResponse:
    """One job. `ref` is an id, a unique beginning of one, a name (the newest), or `last`."""
    return JsonResponse(await job_details(services, await resolve_job(services.journal, caller.scope, ref)))


@router.post("/{ref}/cancel", status_code=202, responses=answers("Asked to end.", JOB, status=202))
async def cancel_job(ref: JobRef, services: ServicesDep, caller: CallerDep) -> JsonResponse:
    """Ask for the job's end. Asking twice is the same as once."""
    view = await resolve_job(services.journal, caller.scope, ref)
    return JsonResponse(await job_details(services, await services.jobs.cancel(caller.scope, view.id)), 202)


@router.post(
    "/{ref}/resume",
    status_code=201,
    responses=answers("A new job goes on.", ACCEPTED, status=201, also={200: "This key was known."}),
    openapi_extra=takes({"limits": {"timeout": "2h"}}, required=False),
)
async def resume_job(
    ref: JobRef,
    request: Request,
    services: ServicesDep,
    caller: CallerDep,
    idempotency_key: IdempotencyKey = None,
) -> JsonResponse:
    """A new job from the newest checkpoint of an ended one; the body overrides fields of its spec."""
    overrides = await read_object(request)
    view = await resolve_job(services.journal, caller.scope, ref)
    if idempotency_key:
        overrides.setdefault("idempotency_key", idempotency_key)
    return await submission_response(services, await services.jobs.resume(caller.scope, view.id, overrides))


async def parse_spec(services: Services, caller: Caller, body: Any, key: str | None) -> JobSpec:
    """The body as a spec that can run: right tenant, known archive, an existing job to resume from."""
    require_own_tenant(caller, body)
    translated = translate(body)
    translated.mapping.pop("tenant_id", None)
    if key:
        translated.mapping.setdefault("idempotency_key", key)
    spec = from_mapping(translated.mapping, source="body", renamed=translated.renamed)
    await _require_archive(services, caller.scope, spec)
    return await _with_resume_id(services, caller.scope, spec)


def require_own_tenant(caller: Caller, body: Any) -> None:
    tenant = tenant_of(body)
    if tenant is not None and tenant != caller.scope.organisation:
        raise Forbidden("`tenant_id` is not the organisation of this token")


async def _require_archive(services: Services, scope: Scope, spec: JobSpec) -> None:
    sha256 = spec.workdir.archive if spec.workdir else None
    if sha256 is not None and not await services.uploads.has(scope.organisation, sha256):
        hint = "upload it first: PUT /api/v1/uploads/{sha256}"
        raise InvalidSpec([Problem("workdir.archive", sha256, "was not uploaded", hint, "body")])


async def _with_resume_id(services: Services, scope: Scope, spec: JobSpec) -> JobSpec:
    if spec.resume_from is None:
        return spec
    reference, at, step = spec.resume_from.partition("@")
    view = await resolve_job(services.journal, scope, reference)
    return spec.model_copy(update={"resume_from": f"{view.id}{at}{step}"})


async def submission_response(services: Services, written: Written) -> JsonResponse:
    view, created = written.view, bool(written.recorded)
    body = {
        "id": view.id,
        "job_id": view.id,
        "execution_id": view.attempt.name if view.attempt else None,
        "status": str(view.status),
        "phase": str(view.phase),
        "position": await services.queue.position(view),
        "created": created,
    }
    return JsonResponse(body, 201 if created else 200, {"Location": f"/api/v1/training/{view.id}"})


async def job_details(services: Services, view: JobView) -> render.JsonObject:
    row = AttemptRow()
    series: tuple[SeriesSummary, ...] = ()
    if view.attempt is not None:
        row = await services.reports.attempt(view.id, view.attempt.number)
        series = tuple(await services.reports.series(view.id, view.attempt.number))
    position = await services.queue.position(view)
    return render.render_job(view, row, series, queue_position=position, now_ms=services.clock.wall_ms())


async def _job_summaries(services: Services, views: tuple[JobView, ...]) -> list[render.JsonObject]:
    keys = [(view.id, len(view.attempts)) for view in views if view.attempts]
    rows = await services.reports.attempts(keys) if keys else {}
    waiting = any(not view.terminal and view.live_attempt is None for view in views)
    turns = await services.queue.positions() if waiting else {}
    now_ms = services.clock.wall_ms()
    return [
        render.render_summary(
            view,
            rows.get((view.id, len(view.attempts)), AttemptRow()),
            queue_position=turns[view.id].position if view.id in turns else None,
            now_ms=now_ms,
        )
        for view in views
    ]


def split_values(values: list[str] | None) -> tuple[str, ...]:
    """`?status=queued,running` and `?status=queued&status=running` are the same."""
    return tuple(part for value in values or () for part in value.split(",") if part)
