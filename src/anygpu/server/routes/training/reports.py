"""Routes for the output of a job: logs, metrics, events, checkpoints and artifacts."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated
from urllib.parse import quote

from fastapi import Query, Request
from starlette.responses import Response

from anygpu.api.reports import (
    ArtifactDetails,
    ArtifactList,
    CheckpointDetails,
    CheckpointList,
    DownloadableFile,
    JobEventList,
    JobMetrics,
)
from anygpu.errors import BlobCorrupt, BlobMissing, NotFound
from anygpu.events.facts import ArtifactRef, CheckpointRef
from anygpu.events.view import JobView
from anygpu.server.encoding import event_json, format_time
from anygpu.server.http.blobs import absolute_url
from anygpu.server.http.bodies import JsonResponse
from anygpu.server.http.downloads import preview_kind
from anygpu.server.http.openapi import text_response
from anygpu.server.http.route import api_router
from anygpu.server.jobs.resolve import require_node, resolve_job
from anygpu.server.routes.training.jobs import JobRef
from anygpu.server.services import CallerDep, Services, ServicesDep
from anygpu.store.blobs.checkpoints import FileDownload
from anygpu.store.blobs.keys import parse_manifest_key
from anygpu.store.reports import MetricPoint, SeriesSummary, report_number

router = api_router("/api/v1/training/{ref}", tag="results")

AttemptNumber = Annotated[int | None, Query(ge=1, le=1_000_000)]
NodeNumber = Annotated[
    int, Query(ge=0, le=1023, description="Which machine of a job on several machines; 0 has rank 0.")
]
Offset = Annotated[int, Query(ge=-(2**53), le=2**53)]
MEBIBYTE = 1024 * 1024


@router.get(
    "/logs",
    responses=text_response("Raw bytes of the log.", "text/plain", "epoch 1 loss 0.3\n"),
    response_class=Response,
)
async def get_logs(
    ref: JobRef,
    services: ServicesDep,
    caller: CallerDep,
    attempt: AttemptNumber = None,
    node: NodeNumber = 0,
    offset: Offset = 0,
    limit: Annotated[int, Query(ge=1, le=16 * MEBIBYTE)] = MEBIBYTE,
) -> Response:
    """Read the log from `offset`; a negative offset counts from the end. Headers give the position of the data."""
    view = await resolve_job(services.journal, caller.scope, ref)
    number = attempt_number(view, attempt)
    source = node_reports(view, number, node)
    if number == 0:
        return _log_response(b"", 0, 0, 0)
    part = await services.reports.log(view.id, source, offset=offset, limit=limit)
    return _log_response(part.data, part.start, part.end, number)


def _log_response(data: bytes, start: int, end: int, attempt: int) -> Response:
    headers = {
        "X-Log-Start": str(start),
        "X-Log-End": str(end),
        "X-Log-Attempt": str(attempt),
        # Browsers must not interpret the output of a script as a page.
        "X-Content-Type-Options": "nosniff",
    }
    return Response(data, 200, headers, "text/plain; charset=utf-8")


# Thousands of points are rendered straight to JSON; the model is for the OpenAPI document.
@router.get("/metrics", response_model=JobMetrics, response_description="Series of the attempt.")
async def get_metrics(
    ref: JobRef,
    services: ServicesDep,
    caller: CallerDep,
    attempt: AttemptNumber = None,
    name: Annotated[list[str] | None, Query(max_length=1000)] = None,
    points: Annotated[int, Query(ge=0, le=100_000)] = 1000,
) -> JsonResponse:
    """Read the metrics of an attempt. Each is sampled to at most `points` points, with its minimum and maximum."""
    view = await resolve_job(services.journal, caller.scope, ref)
    number = attempt_number(view, attempt)
    if number == 0:
        return JsonResponse({"attempt": 0, "cursor": 0, "series": []})
    summaries = [
        each for each in await services.reports.series(view.id, number) if name is None or each.name in name
    ]
    names = [each.name for each in summaries if points]
    samples = await services.reports.samples(view.id, number, names, max_count=points)
    series = [_render_series(each, samples.points.get(each.name, ())) for each in summaries]
    return JsonResponse({"attempt": number, "cursor": samples.cursor, "series": series})


def _render_series(summary: SeriesSummary, sampled: Sequence[MetricPoint]) -> dict[str, object]:
    return {
        **asdict(summary),
        "points": [(point.step, point.at, point.value) for point in sampled],
    }


# The journal stores events as JSON. Their text is copied; the model is for the OpenAPI document.
@router.get("/events", response_model=JobEventList, response_description="Events in order.")
async def list_events(
    ref: JobRef,
    services: ServicesDep,
    caller: CallerDep,
    after: Annotated[int, Query(ge=0, le=2**53)] = 0,
    before: Annotated[int | None, Query(ge=1, le=2**53)] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 500,
) -> Response:
    """List the events of a job after position `after`. To get more, pass `next_after` as `after`.

    With `before`, list the newest events before that position instead, also in order.
    """
    view = await resolve_job(services.journal, caller.scope, ref)
    journal, total = services.journal, None
    if before is None:
        events = await journal.events(caller.scope, after=after, limit=limit, job_id=view.id)
    else:
        events = await journal.events_before(caller.scope, view.id, before=before, limit=limit)
        total = await journal.count_events(caller.scope, view.id)
    texts = ",".join(event_json(each) for each in events)
    next_after = events[-1].position if events else after
    body = f'{{"events":[{texts}],"next_after":{next_after},"total":{json.dumps(total)}}}'
    return Response(body.encode(), media_type="application/json")


@router.get("/checkpoints", response_description="Oldest first.")
async def list_checkpoints(
    ref: JobRef, request: Request, services: ServicesDep, caller: CallerDep
) -> CheckpointList:
    """List valid checkpoints with signed URLs. If a file has several URLs, they are its parts, in order."""
    view = await resolve_job(services.journal, caller.scope, ref)
    base = services.public_url or str(request.base_url)
    return CheckpointList(
        checkpoints=[await _checkpoint_details(services, view, saved, base) for saved in view.checkpoints]
    )


async def _checkpoint_details(
    services: Services, view: JobView, saved: CheckpointRef, base: str
) -> CheckpointDetails:
    found, problem = await _files(services, saved.manifest)
    root = f"{_job_path(view)}/checkpoints/{quote(saved.id, safe='')}/files"
    owner = parse_manifest_key(saved.manifest)
    return CheckpointDetails(
        id=saved.id,
        attempt=saved.attempt,
        step=saved.step,
        size=saved.size,
        saved_at=format_time(saved.saved_at_ms),
        epoch=saved.epoch,
        unit=saved.unit,
        newest=saved == view.newest_checkpoint,
        inherited=owner is not None and owner[0].job_id != view.id,
        resumed_attempts=[a.number for a in view.attempts if a.resume and a.resume.id == saved.id],
        problem=problem,
        files=[
            DownloadableFile(
                path=file.path,
                size=file.size,
                sha256=file.sha256,
                urls=_urls(file, base),
                download=f"{root}/{quote(file.path)}",
                preview=preview_kind(file.path, file.size),
            )
            for file in found
        ],
    )


@router.get("/artifacts", response_description="Files that the job produced.")
async def list_artifacts(
    ref: JobRef, request: Request, services: ServicesDep, caller: CallerDep
) -> ArtifactList:
    """List the artifacts of a job with signed URLs. If a file has several URLs, they are its parts, in order."""
    view = await resolve_job(services.journal, caller.scope, ref)
    return ArtifactList(artifacts=await artifact_details(services, view, request))


async def artifact_details(services: Services, view: JobView, request: Request) -> list[ArtifactDetails]:
    base = services.public_url or str(request.base_url)
    return [await _artifact_details(services, view, artifact, base) for artifact in view.artifacts]


async def _artifact_details(
    services: Services, view: JobView, artifact: ArtifactRef, base: str
) -> ArtifactDetails:
    found, problem = await _files(services, artifact.key)
    return ArtifactDetails(
        name=artifact.name,
        attempt=artifact.attempt,
        size=artifact.size,
        sha256=artifact.sha256,
        urls=[url for file in found for url in _urls(file, base)],
        download=f"{_job_path(view)}/artifacts/{quote(artifact.name)}",
        preview=None if problem else preview_kind(artifact.name, artifact.size),
        problem=problem,
    )


async def _files(services: Services, manifest: str) -> tuple[Sequence[FileDownload], str | None]:
    """Return the files of a checkpoint or artifact, or why they cannot be read, so that the others are still listed."""
    try:
        return (await services.checkpoints.download_plan(manifest)).files, None
    except BlobMissing:
        return (), "its files are no longer stored"
    except BlobCorrupt:
        return (), "the list of its files is damaged"


def _job_path(view: JobView) -> str:
    return f"/api/v1/training/{view.id}"


def _urls(file: FileDownload, base: str) -> list[str]:
    return [absolute_url(chunk.url, base) for chunk in file.chunks]


def attempt_number(view: JobView, requested: int | None) -> int:
    """Return the requested attempt, or else the newest one; 0 if there is no attempt yet."""
    if requested is None:
        return len(view.attempts)
    if requested > len(view.attempts):
        raise NotFound(
            f"Job {view.name or view.id} has no attempt with the number {requested}. `anygpu show` lists its "
            "attempts."
        )
    return requested


def node_reports(view: JobView, number: int, node: int) -> int:
    """Return the number under which the reports of one node of an attempt are stored."""
    require_node(view, node)
    return report_number(number, node)
