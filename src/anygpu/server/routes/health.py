"""How the server is, and what the machines do."""

from collections import Counter

from fastapi import APIRouter, Query
from starlette.responses import PlainTextResponse, Response

from anygpu.server.bodies import Json
from anygpu.server.documented import answers, gives
from anygpu.server.gauges import exposition
from anygpu.server.routes.examples import JOB_ID
from anygpu.server.services import Asking, Served
from anygpu.tenancy.access import Role

router = APIRouter(tags=["monitoring"])

GPU = {"index": 0, "uuid": "GPU-…", "name": "L4", "use": 0.9, "memory_used": 9 * 2**30, "power_w": 70.0}


@router.get("/healthz", responses=answers("The process answers.", {"ok": True}))
async def healthz() -> Json:
    """Liveness: no look at the database."""
    return Json({"ok": True})


@router.get("/readyz", responses=answers("Requests can be served.", {"ok": True, "version": "0.1.0"}))
async def readyz(served: Served) -> Json:
    """Readiness: the database answers."""
    await served.ready()
    return Json({"ok": True, "version": served.version})


@router.get(
    "/metrics",
    responses=gives("Prometheus text.", "text/plain", "anygpu_live_attempts 2\n"),
    response_class=PlainTextResponse,
)
async def metrics(served: Served, asking: Asking) -> Response:
    """Numbers about this server process, for whoever runs it."""
    asking.require(Role.OPERATOR)
    live = await served.queue.live()
    jobs = Counter(str(view.status) for view in live)
    attempts = sum(1 for view in live if view.live_attempt is not None)
    text = exposition(served.gauges, jobs, attempts, served.sources.hub.followers)
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
async def gpu(served: Served, asking: Asking) -> Json:
    """The server's own machine, and what each running attempt of the project last measured."""
    scope = asking.scope
    mine = [
        view
        for view in await served.queue.live()
        if view.live_attempt is not None
        and (view.organisation, view.project) == (scope.organisation, scope.project)
    ]
    keys = [(view.id, len(view.attempts)) for view in mine]
    rows = await served.evidence.attempts(keys) if keys else {}
    attempts = [
        {"job_id": job_id, "attempt": number, "telemetry": dict(row.telemetry)}
        for (job_id, number), row in rows.items()
    ]
    return Json({"host": await served.host.newest(), "attempts": attempts})


@router.post(
    "/api/v1/gc", responses=answers("What was, or would be, removed.", {"dry_run": True}), tags=["retention"]
)
async def gc(served: Served, asking: Asking, dry_run: bool = Query(default=False)) -> Json:
    """Apply retention now."""
    asking.require(Role.OPERATOR)
    return Json({"dry_run": dry_run, **await served.collect_garbage(dry_run)})
