"""Doors for other documents' clients: the same jobs, asked for and answered in their own shapes."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from anygpu.events.view import JobView
from anygpu.server.encoding import format_time
from anygpu.server.http.bodies import JsonResponse, read_json
from anygpu.server.http.openapi import JOB_ID, answers, takes
from anygpu.server.jobs.resolve import resolve_job
from anygpu.server.routes.jobs import require_own_tenant
from anygpu.server.services import CallerDep, Services, ServicesDep
from anygpu.spec.doors import from_orchestrate_body
from anygpu.spec.load import from_mapping
from anygpu.store.evidence import AttemptRow

router = APIRouter(tags=["doors"])

BODY = {
    "tenant_id": "local",
    "training_params": {"epochs": 10, "batch_size": 16, "learning_rate": 0.001, "model_type": "detection"},
    "model_params": {"architecture": "yolo", "input_size": 640},
    "custom_name": "my-training-job",
    "wandb_tags": ["tag1", "tag2"],
}
TASK = {
    "task_id": JOB_ID,
    "status": "running",
    "created_at": "2026-01-05T10:00:00.000Z",
    "progress": {"epoch": 5, "total_epochs": 10, "progress_percent": 50, "message": "Training epoch 5/10"},
}


@router.post(
    "/orchestrate",
    status_code=201,
    responses=answers("Queued.", TASK, status=201),
    openapi_extra=takes(BODY),
)
async def submit_task(request: Request, services: ServicesDep, caller: CallerDep) -> JsonResponse:
    """Submit a training task. `tenant_id` must be the organisation of the token."""
    body = await read_json(request)
    translated = from_orchestrate_body(body)
    require_own_tenant(caller, body)
    spec = from_mapping(translated.mapping, source="body", renamed=translated.renamed)
    written = await services.jobs.submit(caller.scope, spec)
    return JsonResponse(await _render_task(services, written.view), 201)


@router.get("/status", responses=answers("The task.", TASK))
async def get_task(
    services: ServicesDep, caller: CallerDep, task_id: Annotated[str, Query(min_length=1, max_length=200)]
) -> JsonResponse:
    """How a task is doing."""
    return JsonResponse(
        await _render_task(services, await resolve_job(services.journal, caller.scope, task_id))
    )


async def _render_task(services: Services, view: JobView) -> dict[str, Any]:
    row = AttemptRow()
    if view.attempt is not None:
        row = await services.reports.attempt(view.id, view.attempt.number)
    return {
        "task_id": view.id,
        "status": str(view.status),
        "created_at": format_time(view.submitted_at_ms),
        "progress": _render_task_progress(view, row),
        "error": view.failure.message if view.failure else None,
    }


def _render_task_progress(view: JobView, row: AttemptRow) -> dict[str, Any]:
    told = row.progress
    fraction = 1.0 if view.status == "completed" else told.get("fraction") or 0.0
    return {
        "epoch": told.get("epoch") or 0,
        "total_epochs": told.get("epochs") or view.spec.config.get("epochs"),
        "progress_percent": round(100 * fraction),
        "message": told.get("message") or view.reason or str(view.phase),
    }
