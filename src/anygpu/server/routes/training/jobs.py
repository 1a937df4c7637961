"""Routes for jobs: submit, list, show, start, cancel, resume, delete."""

from typing import Annotated, Any

from fastapi import Depends, Header, Path, Query, Request
from starlette.responses import Response

from anygpu.api.jobs import JobCountList, JobDetails, JobEdit, JobList, SubmittedJob
from anygpu.errors import Forbidden
from anygpu.events.facts import Status
from anygpu.events.view import JobView
from anygpu.server.http.bodies import JsonResponse, read_json, read_object
from anygpu.server.http.openapi import MODEL_EXAMPLE, SPEC_EXAMPLE, SPEC_SCHEMA, object_body
from anygpu.server.http.route import JsonBody, api_router
from anygpu.server.jobs import render
from anygpu.server.jobs.checkpoint_choice import take_chosen_step
from anygpu.server.jobs.edit import edited_fields
from anygpu.server.jobs.resolve import resolve_job
from anygpu.server.jobs.submission.check import require_place, require_runnable
from anygpu.server.services import CallerDep, Services, ServicesDep
from anygpu.spec.compat import organisation_of, translate
from anygpu.spec.jobspec import JobSpec
from anygpu.spec.load import from_mapping
from anygpu.store.journal import JobQuery, TransactionResult
from anygpu.store.reports import ReportState, SeriesSummary
from anygpu.store.scope import Scope
from anygpu.store.search import ACTIVE
from anygpu.tenancy.auth import Caller

router = api_router("/api/v1/training", tag="training")

JobRef = Annotated[str, Path(min_length=1, max_length=200, examples=["last"])]
Text = Annotated[str | None, Query(max_length=500)]
Values = Annotated[list[str] | None, Query(max_length=20)]
EditBody = Annotated[JobEdit, Depends(JsonBody(JobEdit, required=False))]
TimeMs = Annotated[int | None, Query(ge=0, le=2**53)]
RECENT_LOG_BYTES, RECENT_LOG_LINES = 8192, 20
IdempotencyKey = Annotated[str | None, Header(alias="Idempotency-Key", max_length=200)]


SUBMIT_OPTIONS: dict[str, Any] = {
    "status_code": 201,
    "response_model": SubmittedJob,
    "response_description": "Accepted.",
    "responses": {200: {"description": "This idempotency key was used before: its first job."}},
}


@router.post("", **SUBMIT_OPTIONS, openapi_extra=object_body(SPEC_EXAMPLE, schema=SPEC_SCHEMA))
async def submit_job(
    request: Request, services: ServicesDep, caller: CallerDep, idempotency_key: IdempotencyKey = None
) -> JsonResponse:
    """Submit a job: a job spec, or `{"model_name", "config"}`.

    With an idempotency key, a retry creates no second job.
    """
    spec = await parse_spec(services, caller, await read_json(request), idempotency_key)
    return await submission_response(services, await accept_spec(services, caller, spec))


@router.post("/create", **SUBMIT_OPTIONS, openapi_extra=object_body(MODEL_EXAMPLE, schema=SPEC_SCHEMA))
async def create_job(
    request: Request, services: ServicesDep, caller: CallerDep, idempotency_key: IdempotencyKey = None
) -> JsonResponse:
    """Submit a job. The same as `POST /api/v1/training`, for clients that use this path."""
    return await submit_job(request, services, caller, idempotency_key)


# Job lists and job details are the busiest responses. They are rendered from views straight to JSON; the model is
# for the OpenAPI document, and tests compare both.
@router.get("", response_model=JobList, response_description="A page, newest first.")
async def list_jobs(
    services: ServicesDep,
    caller: CallerDep,
    status: Values = None,
    phase: Values = None,
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
    """List the jobs of the project that match every filter. Pass `next_cursor` as `cursor` for the next page."""
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
    page = await services.journal.find(caller.scope, query)
    return JsonResponse({"jobs": await services.summaries.read(page.jobs), "next_cursor": page.next_cursor})


@router.get("/counts", response_description="Counted by status.")
async def count_jobs(
    services: ServicesDep,
    caller: CallerDep,
    phase: Values = None,
    name: Text = None,
    tag: Text = None,
    backend: Text = None,
    person: Text = None,
    q: Text = None,
    after_ms: TimeMs = None,
    before_ms: TimeMs = None,
) -> JobCountList:
    """Count the jobs of the project that match every filter, by status."""
    query = JobQuery(
        phase=split_values(phase),
        name=name,
        tag=tag,
        backend=backend,
        person=person,
        text=q,
        submitted_after_ms=after_ms,
        submitted_before_ms=before_ms,
    )
    counts = await services.journal.count(caller.scope, query)
    by_status = {str(status): counts.by_status.get(str(status), 0) for status in Status}
    return JobCountList(
        all=sum(by_status.values()),
        active=sum(by_status[status] for status in ACTIVE),
        exact=counts.is_exact,
        **by_status,
    )


@router.get("/{ref}", response_model=JobDetails, response_description="The job.")
async def get_job(ref: JobRef, services: ServicesDep, caller: CallerDep) -> JsonResponse:
    """Show one job. `ref` is an id, a unique beginning or end of one, a name (its newest job), or `last`."""
    view = await resolve_job(services.journal, caller.scope, ref)
    return JsonResponse(await job_details(services, view))


@router.post(
    "/{ref}/cancel", status_code=202, response_model=JobDetails, response_description="Cancel requested."
)
async def cancel_job(ref: JobRef, services: ServicesDep, caller: CallerDep) -> JsonResponse:
    """Cancel a job. Repeating the request changes nothing."""
    view = await resolve_job(services.journal, caller.scope, ref)
    return JsonResponse(await job_details(services, await services.jobs.cancel(caller.scope, view.id)), 202)


@router.post(
    "/{ref}/start", status_code=202, response_model=JobDetails, response_description="Start requested."
)
async def start_job(ref: JobRef, services: ServicesDep, caller: CallerDep) -> JsonResponse:
    """Move a waiting job before the other waiting jobs of its project. Repeating the request changes nothing.

    The job starts as soon as a machine is free; quotas and budgets apply.
    """
    view = await resolve_job(services.journal, caller.scope, ref)
    return JsonResponse(await job_details(services, await services.jobs.start(caller.scope, view.id)), 202)


@router.patch("/{ref}", response_model=JobDetails, response_description="The edited job.")
async def edit_job(ref: JobRef, body: EditBody, services: ServicesDep, caller: CallerDep) -> JsonResponse:
    """Change the name, the tags or the notes of a job, also after its end. What is left out stays as it is."""
    view = await resolve_job(services.journal, caller.scope, ref)
    edited = await services.jobs.edit(caller.scope, view.id, lambda current: edited_fields(current, body))
    return JsonResponse(await job_details(services, edited))


@router.delete("/{ref}", status_code=204, response_class=Response, response_description="Deleted.")
async def delete_job(ref: JobRef, services: ServicesDep, caller: CallerDep) -> Response:
    """Delete a job that has ended: its events, logs, metrics and files. What it cost stays recorded."""
    view = await resolve_job(services.journal, caller.scope, ref)
    await services.jobs.delete(caller.scope, view.id)
    return Response(None, 204)


@router.post(
    "/{ref}/resume",
    status_code=201,
    response_model=SubmittedJob,
    response_description="Accepted as a new job.",
    responses={200: {"description": "This idempotency key was used before: its first job."}},
    openapi_extra=object_body({"limits": {"timeout": "2h"}}, required=False),
)
async def resume_job(
    ref: JobRef,
    request: Request,
    services: ServicesDep,
    caller: CallerDep,
    idempotency_key: IdempotencyKey = None,
) -> JsonResponse:
    """Submit a new job that continues an ended job from its newest intact checkpoint.

    The body overrides fields of the spec. `resume_from` (a step, or `job@step` of this job) or a number as
    `checkpoint` chooses the checkpoint of that step.
    """
    overrides = await read_object(request)
    view = await resolve_job(services.journal, caller.scope, ref)
    step = await take_chosen_step(services.journal, caller.scope, view, overrides)
    require_place(services, caller.scope, view.spec)
    if idempotency_key:
        overrides.setdefault("idempotency_key", idempotency_key)
    resumed = await services.jobs.resume(caller.scope, view.id, overrides, step)
    return await submission_response(services, resumed)


async def parse_spec(services: Services, caller: Caller, body: Any, key: str | None) -> JobSpec:
    """Validate a request body as a job spec: its fields, its organisation, and the job it resumes from."""
    require_own_tenant(caller, body)
    translated = translate(body)
    translated.mapping.pop("tenant_id", None)
    if key:
        translated.mapping.setdefault("idempotency_key", key)
    spec = from_mapping(translated.mapping, source="body", renamed=translated.renamed)
    return await _with_resume_id(services, caller.scope, spec)


async def accept_spec(services: Services, caller: Caller, spec: JobSpec) -> TransactionResult:
    """Submit a job if everything that it names exists."""
    await require_runnable(services, caller.scope, spec)
    return await services.jobs.submit(caller.scope, spec)


def require_own_tenant(caller: Caller, body: Any) -> None:
    tenant = organisation_of(body)
    if tenant is not None and tenant != caller.scope.organisation:
        raise Forbidden(
            "The organisation in `tenant_id` is not that of your token. Use a token of that organisation, or "
            "leave out `tenant_id`."
        )


async def _with_resume_id(services: Services, scope: Scope, spec: JobSpec) -> JobSpec:
    """Return the spec with the reference in `resume_from` replaced by the id of that job."""
    if spec.resume_from is None:
        return spec
    reference, at, step = spec.resume_from.partition("@")
    view = await resolve_job(services.journal, scope, reference)
    return spec.model_copy(update={"resume_from": f"{view.id}{at}{step}"})


async def submission_response(services: Services, written: TransactionResult) -> JsonResponse:
    view, created = written.view, bool(written.recorded)
    body = SubmittedJob(
        id=view.id,
        job_id=view.id,
        execution_id=view.newest_attempt.name if view.newest_attempt else None,
        status=str(view.status),
        phase=str(view.phase),
        position=await services.queue.position(view),
        created=created,
    )
    return JsonResponse(body, 201 if created else 200, {"Location": f"/api/v1/training/{view.id}"})


async def job_details(services: Services, view: JobView) -> render.JsonObject:
    """Return everything about one job, in the form of `JobDetails`."""
    row = ReportState()
    series: tuple[SeriesSummary, ...] = ()
    if view.newest_attempt is not None:
        row = await services.reports.state(view.id, view.newest_attempt.number)
        series = tuple(await services.reports.series(view.id, view.newest_attempt.number))
    return render.render_job(
        view,
        row,
        series,
        earlier=(await services.summaries.earlier_reports([view], {view.id: row})).get(
            view.id, ReportState()
        ),
        recent_logs=await _recent_logs(services, view),
        queue_position=await services.queue.position(view),
        queue_wait_s=await services.queue.wait_s(view),
        now_ms=services.clock.wall_ms(),
    )


async def _recent_logs(services: Services, view: JobView) -> list[str]:
    """Return the last lines of the newest attempt's output."""
    if view.newest_attempt is None:
        return []
    number = view.newest_attempt.number
    part = await services.reports.log(view.id, number, offset=-RECENT_LOG_BYTES, limit=RECENT_LOG_BYTES)
    lines = render.last_lines(part.data, RECENT_LOG_LINES + 1)
    cut = part.end > len(part.data) and len(lines) <= RECENT_LOG_LINES
    return lines[1:] if cut else lines[-RECENT_LOG_LINES:]  # the first line of a part may be incomplete


def split_values(values: list[str] | None) -> tuple[str, ...]:
    """Split values at commas, so that `?status=queued,running` equals `?status=queued&status=running`."""
    return tuple(part for value in values or () for part in value.split(",") if part)
