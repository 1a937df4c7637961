"""Routes for the health and metrics of the server, telemetry of machines, and the removal of old data."""

from collections import Counter

from fastapi import Query
from starlette.responses import PlainTextResponse, Response

from anygpu.api.server import Health, NewestAttemptTelemetry, Readiness, RetentionReport, TelemetrySamples
from anygpu.events.offers import LOCAL
from anygpu.server.http.openapi import text_response
from anygpu.server.http.route import api_router
from anygpu.server.jobs.queue import is_visible
from anygpu.server.process.metrics import prometheus_text
from anygpu.server.process.periodic import RetentionOptions
from anygpu.server.services import CallerDep, ServicesDep
from anygpu.server.warnings import list_warnings
from anygpu.tenancy.auth import Role

router = api_router(tag="monitoring")


@router.get("/healthz", response_description="The process answers.")
async def healthz() -> Health:
    """Check that the process answers. Does not read the database."""
    return Health(ok=True)


@router.get("/readyz", response_description="Requests can be served.")
async def readyz(services: ServicesDep) -> Readiness:
    """Check that the server can serve requests: the database answers. Also list what an operator should repair."""
    await services.check_ready()
    return Readiness(ok=True, version=services.version, warnings=await list_warnings(services))


@router.get(
    "/metrics",
    responses=text_response("Prometheus text.", "text/plain", "anygpu_live_attempts 2\n"),
    response_class=PlainTextResponse,
)
async def get_server_metrics(services: ServicesDep, caller: CallerDep) -> Response:
    """Return the metrics of this server process. For the operator only."""
    caller.require(Role.OPERATOR)
    live = await services.queue.live()
    jobs = Counter(str(view.status) for view in live)
    attempts = sum(1 for view in live if view.live_attempt is not None)
    text = prometheus_text(services.metrics, jobs, attempts, services.stream_sources.hub.followers)
    return PlainTextResponse(text, media_type="text/plain; version=0.0.4")


@router.get("/api/v1/monitoring/gpu", response_description="Newest samples.")
async def get_gpu_samples(services: ServicesDep, caller: CallerDep) -> TelemetrySamples:
    """Show the newest telemetry of the server's host and of the project's running attempts.

    Organisations that may not use the server's host do not see its telemetry.
    """
    live = await services.queue.live()
    running = [view for view in live if view.live_attempt is not None and is_visible(view, caller.scope)]
    keys = [(view.id, len(view.attempts)) for view in running]
    rows = await services.reports.states(keys) if keys else {}
    attempts = [
        NewestAttemptTelemetry(job_id=job_id, attempt=number, telemetry=dict(row.telemetry))
        for (job_id, number), row in rows.items()
    ]
    sees_host = caller.role.includes(Role.OPERATOR) or services.backends.visible(
        LOCAL, caller.scope.organisation
    )
    host = await services.host_telemetry.latest() if sees_host else {}
    return TelemetrySamples(host=host, attempts=attempts)


@router.post(
    "/api/v1/gc", tags=["retention"], response_description="Removed, or with `dry_run` to be removed."
)
async def apply_retention(
    services: ServicesDep,
    caller: CallerDep,
    dry_run: bool = Query(default=False),
    force: bool = Query(default=False, description="Remove files even if they are unusually many."),
    adopt: bool = Query(default=False, description="The stored files belong to this database from now on."),
    empty_trash: bool = Query(default=False, description="Delete everything in the trash now."),
) -> RetentionReport:
    """Remove old data now: output of jobs that ended long ago, and files that no job refers to.

    Removed files stay in the trash for some days. `refused` says why files were not removed, if so.
    """
    caller.require(Role.OPERATOR)
    options = RetentionOptions(dry_run=dry_run, force=force, adopt=adopt, empty_trash=empty_trash)
    return RetentionReport(dry_run=dry_run, **await services.retention.apply(options))
