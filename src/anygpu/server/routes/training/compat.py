"""Routes for clients of other systems: jobs in the formats of `/orchestrate` and `/models/{model}/train`."""

from typing import Annotated

from fastapi import Path, Query, Request

from anygpu.api.jobs import CompatProgress, CompatTask, TrainingSession
from anygpu.events.view import JobView
from anygpu.server.encoding import format_time
from anygpu.server.http.bodies import read_json
from anygpu.server.http.openapi import object_body
from anygpu.server.http.route import api_router
from anygpu.server.jobs.render import JsonObject
from anygpu.server.jobs.resolve import resolve_job
from anygpu.server.routes.training.jobs import JobRef, accept_spec, job_details, require_own_tenant
from anygpu.server.routes.training.reports import artifact_details
from anygpu.server.services import CallerDep, Services, ServicesDep
from anygpu.spec.compat import translate_model_training_body, translate_orchestrate_body
from anygpu.spec.load import from_mapping

router = api_router(tag="compat")

ERROR_LINES = 10

TASK_EXAMPLE = {
    "tenant_id": "local",
    "training_params": {"epochs": 10, "batch_size": 16, "learning_rate": 0.001, "target": "price"},
    "model_params": {"architecture": "tabular", "model": "mlp"},
    "dataset": "/data/houses.csv",
    "custom_name": "my-training-job",
    "wandb_tags": ["tag1", "tag2"],
}
SESSION_EXAMPLE = {
    "dataset": "/data/houses.csv",
    "compute_profile_id": "local",
    "config": {"epochs": 100, "target": "price"},
}


@router.post(
    "/orchestrate", status_code=201, response_description="Queued.", openapi_extra=object_body(TASK_EXAMPLE)
)
async def submit_task(request: Request, services: ServicesDep, caller: CallerDep) -> CompatTask:
    """Submit a training task. `tenant_id` must be the organisation of the token."""
    body = await read_json(request)
    translated = translate_orchestrate_body(body)
    require_own_tenant(caller, body)
    spec = from_mapping(translated.mapping, source="body", renamed=translated.renamed)
    written = await accept_spec(services, caller, spec)
    return await _render_task(services, written.view)


@router.get("/status", response_description="The task.")
async def get_task(
    services: ServicesDep, caller: CallerDep, task_id: Annotated[str, Query(min_length=1, max_length=200)]
) -> CompatTask:
    """Show the status and progress of a task."""
    return await _render_task(services, await resolve_job(services.journal, caller.scope, task_id))


@router.post(
    "/models/{model}/train",
    status_code=201,
    response_description="Accepted.",
    openapi_extra=object_body(SESSION_EXAMPLE),
)
async def train_model(
    model: Annotated[str, Path(min_length=1, max_length=200, examples=["tabular"])],
    request: Request,
    services: ServicesDep,
    caller: CallerDep,
) -> TrainingSession:
    """Train a model: a trainer, or a model that a trainer knows."""
    translated = translate_model_training_body(model, await read_json(request))
    spec = from_mapping(translated.mapping, source="body", renamed=translated.renamed)
    written = await accept_spec(services, caller, spec)
    return await _render_session(services, written.view, request)


@router.get("/training-sessions/{ref}", response_description="The session.")
async def get_session(
    ref: JobRef, request: Request, services: ServicesDep, caller: CallerDep
) -> TrainingSession:
    """Show a training session, with signed URLs of its files."""
    return await _render_session(services, await resolve_job(services.journal, caller.scope, ref), request)


async def _render_session(services: Services, view: JobView, request: Request) -> TrainingSession:
    job = await job_details(services, view)
    return TrainingSession(
        id=view.id,
        model=view.spec.trainer or view.spec.kind,
        status=str(view.status),
        created_at=format_time(view.submitted_at_ms),
        compute_profile_id=job["backend"] or view.spec.placement.profile,
        progress=_render_task_progress(view, job),
        metrics=job["metrics"],
        error=_error_text(view, job),
        artifacts=await artifact_details(services, view, request),
    )


async def _render_task(services: Services, view: JobView) -> CompatTask:
    job = await job_details(services, view)
    return CompatTask(
        task_id=view.id,
        status=str(view.status),
        created_at=format_time(view.submitted_at_ms),
        progress=_render_task_progress(view, job),
        error=_error_text(view, job),
        logs=job["recent_logs"],
    )


def _error_text(view: JobView, job: JsonObject) -> str | None:
    """Return why the job failed, and the last lines of its output."""
    return "\n".join([view.failure.message, *job["recent_logs"][-ERROR_LINES:]]) if view.failure else None


def _render_task_progress(view: JobView, job: JsonObject) -> CompatProgress:
    progress = job["progress"]
    fraction = 1.0 if view.status == "completed" else min(1.0, max(0.0, progress["fraction"] or 0.0))
    failure = view.failure.message if view.failure else None
    return CompatProgress(
        epoch=progress["epoch"] or 0,
        total_epochs=progress["epochs"] or view.spec.config.get("epochs"),
        progress_percent=round(100 * fraction),
        message=failure or progress["message"] or view.reason or str(view.phase),
        progress=fraction,
        metrics=job["metrics"],
        status=str(view.status if view.is_terminal else view.phase),
    )
