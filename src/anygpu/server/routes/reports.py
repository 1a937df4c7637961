"""What a job produced: logs, metrics, events, checkpoints, artifacts."""

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from anygpu.errors import BlobMissing, NotFound
from anygpu.events.view import JobView
from anygpu.server.encoding import event_json, format_time
from anygpu.server.http.blobs import absolute_url
from anygpu.server.http.bodies import JsonResponse
from anygpu.server.http.openapi import ARTIFACT, CHECKPOINT, EVENT, SERIES, answers, gives
from anygpu.server.jobs.resolve import resolve_job
from anygpu.server.routes.jobs import JobRef
from anygpu.server.services import CallerDep, Services, ServicesDep
from anygpu.store.evidence import SeriesSummary
from anygpu.store.publishing import FilePlan

router = APIRouter(prefix="/api/v1/training/{ref}", tags=["results"])

AttemptNumber = Annotated[int | None, Query(ge=1, le=1_000_000)]
Offset = Annotated[int, Query(ge=-(2**53), le=2**53)]
MEBIBYTE = 1024 * 1024


@router.get(
    "/logs",
    responses=gives("Raw bytes of the log.", "text/plain", "epoch 1 loss 0.3\n"),
    response_class=Response,
)
async def get_logs(
    ref: JobRef,
    services: ServicesDep,
    caller: CallerDep,
    attempt: AttemptNumber = None,
    offset: Offset = 0,
    limit: Annotated[int, Query(ge=1, le=16 * MEBIBYTE)] = MEBIBYTE,
) -> Response:
    """Bytes from `offset`; a negative one counts from the end. Headers say where they are in the log."""
    view = await resolve_job(services.journal, caller.scope, ref)
    number = attempt_number(view, attempt)
    if number == 0:
        return _log_response(b"", 0, 0, 0)
    part = await services.reports.log(view.id, number, offset=offset, limit=limit)
    return _log_response(part.data, part.start, part.end, number)


def _log_response(data: bytes, start: int, end: int, attempt: int) -> Response:
    headers = {
        "X-Log-Start": str(start),
        "X-Log-End": str(end),
        "X-Log-Attempt": str(attempt),
        # What a script prints is never shown as a page.
        "X-Content-Type-Options": "nosniff",
    }
    return Response(data, 200, headers, "text/plain; charset=utf-8")


@router.get("/metrics", responses=answers("Series.", {"attempt": 1, "cursor": 3, "series": [SERIES]}))
async def get_metrics(
    ref: JobRef,
    services: ServicesDep,
    caller: CallerDep,
    attempt: AttemptNumber = None,
    name: Annotated[list[str] | None, Query(max_length=1000)] = None,
    points: Annotated[int, Query(ge=0, le=100_000)] = 1000,
) -> JsonResponse:
    """Each series thinned to at most `points` that keep its extremes; `cursor` is where a stream goes on."""
    view = await resolve_job(services.journal, caller.scope, ref)
    number = attempt_number(view, attempt)
    if number == 0:
        return JsonResponse({"attempt": 0, "cursor": 0, "series": []})
    row = await services.reports.attempt(view.id, number)
    wanted = [
        each for each in await services.reports.series(view.id, number) if name is None or each.name in name
    ]
    series = [await _read_series(services, view.id, number, each, points) for each in wanted]
    return JsonResponse({"attempt": number, "cursor": row.marks.metric_points, "series": series})


async def _read_series(
    services: Services, job_id: str, attempt: int, each: SeriesSummary, most: int
) -> dict[str, object]:
    sampled = await services.reports.sample(job_id, attempt, each.name, most=most) if most else ()
    return {
        "name": each.name,
        "count": each.count,
        "min": each.min,
        "max": each.max,
        "last": each.last,
        "last_step": each.last_step,
        "points": [(point.step, point.at, point.value) for point in sampled],
    }


@router.get("/events", responses=answers("Events in order.", {"events": [EVENT], "next_after": 17}))
async def list_events(
    ref: JobRef,
    services: ServicesDep,
    caller: CallerDep,
    after: Annotated[int, Query(ge=0, le=2**53)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 500,
) -> Response:
    """What happened to the job behind the position `after`; `next_after` asks for more."""
    view = await resolve_job(services.journal, caller.scope, ref)
    found = await services.journal.events(caller.scope, after=after, limit=limit, job_id=view.id)
    texts = ",".join(event_json(each) for each in found)
    next_after = found[-1].position if found else after
    body = f'{{"events":[{texts}],"next_after":{next_after}}}'
    return Response(body.encode(), media_type="application/json")


@router.get("/checkpoints", responses=answers("Oldest first.", {"checkpoints": [CHECKPOINT]}))
async def list_checkpoints(
    ref: JobRef, request: Request, services: ServicesDep, caller: CallerDep
) -> JsonResponse:
    """Valid checkpoints with signed URLs; the URLs of a file are its parts, in order."""
    view = await resolve_job(services.journal, caller.scope, ref)
    base = services.public_url or str(request.base_url)
    found = []
    for saved in view.checkpoints:
        about = {"id": saved.id, "attempt": saved.attempt, "step": saved.step, "size": saved.size}
        files = [
            {"path": file.path, "size": file.size, "sha256": file.sha256, "urls": _urls(file, base)}
            for file in await _files(services, saved.manifest)
        ]
        found.append({**about, "saved_at": format_time(saved.saved_at_ms), "files": files})
    return JsonResponse({"checkpoints": found})


@router.get("/artifacts", responses=answers("Files the job made.", {"artifacts": [ARTIFACT]}))
async def list_artifacts(
    ref: JobRef, request: Request, services: ServicesDep, caller: CallerDep
) -> JsonResponse:
    """Files with signed URLs; the URLs of a file are its parts, in order."""
    view = await resolve_job(services.journal, caller.scope, ref)
    base = services.public_url or str(request.base_url)
    found = []
    for made in view.artifacts:
        about = {"name": made.name, "attempt": made.attempt, "size": made.size, "sha256": made.sha256}
        urls = [url for file in await _files(services, made.key) for url in _urls(file, base)]
        found.append({**about, "urls": urls})
    return JsonResponse({"artifacts": found})


async def _files(services: Services, manifest: str) -> Sequence[FilePlan]:
    """None when retention has removed them: what was saved is still told."""
    try:
        return (await services.checkpoints.download_plan(manifest)).files
    except BlobMissing:
        return ()


def _urls(file: FilePlan, base: str) -> list[str]:
    return [absolute_url(chunk.url, base) for chunk in file.chunks]


def attempt_number(view: JobView, asked: int | None) -> int:
    """The attempt asked for, else the newest; 0 when there is none yet."""
    if asked is None:
        return len(view.attempts)
    if asked > len(view.attempts):
        raise NotFound(f"job {view.name or view.id} has no attempt {asked}")
    return asked
