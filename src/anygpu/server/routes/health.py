"""How the server is, and what the machines do."""

from collections import Counter

from fastapi import APIRouter, Query
from starlette.responses import PlainTextResponse, Response

from anygpu.server.http.bodies import JsonResponse
from anygpu.server.http.openapi import JOB_ID, answers, gives
from anygpu.server.process.metrics import prometheus_text
from anygpu.server.services import CallerDep, ServicesDep
from anygpu.tenancy.auth import Role

router = APIRouter(tags=["monitoring"])

GPU = {"index": 0, "uuid": "GPU-…", "name": "L4", "use": 0.9, "memory_used": 9 * 2**30, "power_w": 70.0}


@router.get("/healthz", responses=answers("The process answers.", {"ok": True}))
async def healthz() -> JsonResponse:
    """Liveness: no look at the database."""
    return JsonResponse({"ok": True})


@router.get("/readyz", responses=answers("Requests can be served.", {"ok": True, "version": "0.1.0"}))
async def readyz(services: ServicesDep) -> JsonResponse:
    """Readiness: the database answers."""
    await services.check_ready()
    return JsonResponse({"ok": True, "version": services.version})


@router.get(
    "/metrics",
    responses=gives("Prometheus text.", "text/plain", "anygpu_live_attempts 2\n"),
    response_class=PlainTextResponse,
)
async def get_server_metrics(services: ServicesDep, caller: CallerDep) -> Response:
    """Numbers about this server process, for whoever runs it."""
    caller.require(Role.OPERATOR)
    live = await services.queue.live()
    jobs = Counter(str(view.status) for view in live)
    attempts = sum(1 for view in live if view.live_attempt is not None)
    text = prometheus_text(services.metrics, jobs, attempts, services.stream_sources.hub.followers)
    return PlainTextResponse(text, media_type="text/plain; version=0.0.4")


@router.get(
    "/api/v1/monitoring/gpu",
    responses=answers(
        "Newest samples.",
        {
            "host": {"gpus": [GPU]},
            "attempts": [{"job_id": JOB_ID, "attempt": 1, "telemetry": {"gpus": [GPU]}}],
        },
    ),
)
async def get_gpu_samples(services: ServicesDep, caller: CallerDep) -> JsonResponse:
    """The server's own machine, and what each running attempt of the project last measured."""
    scope = caller.scope
    mine = [
        view
        for view in await services.queue.live()
        if view.live_attempt is not None
        and (view.organisation, view.project) == (scope.organisation, scope.project)
    ]
    keys = [(view.id, len(view.attempts)) for view in mine]
    rows = await services.reports.attempts(keys) if keys else {}
    attempts = [
        {"job_id": job_id, "attempt": number, "telemetry": dict(row.telemetry)}
        for (job_id, number), row in rows.items()
    ]
    return JsonResponse({"host": await services.host_telemetry.latest(), "attempts": attempts})


@router.post(
    "/api/v1/gc", responses=answers("What was, or would be, removed.", {"dry_run": True}), tags=["retention"]
)
async def apply_retention(
    services: ServicesDep, caller: CallerDep, dry_run: bool = Query(default=False)
) -> JsonResponse:
    """Apply retention now."""
    caller.require(Role.OPERATOR)
    return JsonResponse({"dry_run": dry_run, **await services.apply_retention(dry_run)})
