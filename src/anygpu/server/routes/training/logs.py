"""Logs by line, and the search in a log."""

import re
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import Query
from starlette.responses import Response, StreamingResponse

from anygpu.api.logs import LogHits, LogLines
from anygpu.errors import InvalidSpec, Problem
from anygpu.events.view import JobView
from anygpu.server.encoding import format_optional_time
from anygpu.server.http.bodies import JsonResponse
from anygpu.server.http.openapi import text_response
from anygpu.server.http.route import api_router
from anygpu.server.jobs.log_search import LogSearch
from anygpu.server.jobs.resolve import resolve_job
from anygpu.server.routes.training.jobs import JobRef
from anygpu.server.routes.training.reports import AttemptNumber, NodeNumber, attempt_number, node_reports
from anygpu.server.services import CallerDep, ServicesDep
from anygpu.store.logs.page import LogLine
from anygpu.store.logs.search import LogPattern
from anygpu.store.reports import Reports

router = api_router("/api/v1/training/{ref}/logs", tag="results")

PART_BYTES = 2**20
LineNumber = Annotated[int | None, Query(ge=0, le=2**53)]


# Thousands of lines are rendered straight to JSON; the model is for the OpenAPI document.
@router.get("/lines", response_model=LogLines, response_description="Lines of the log.")
async def list_log_lines(
    ref: JobRef,
    services: ServicesDep,
    caller: CallerDep,
    attempt: AttemptNumber = None,
    node: NodeNumber = 0,
    first: Annotated[int, Query(alias="from", ge=-(2**53), le=2**53)] = 1,
    count: Annotated[int, Query(ge=0, le=2000)] = 200,
) -> JsonResponse:
    """Read lines from line `from`; a negative number counts from the end. Long lines can make the page shorter."""
    view = await resolve_job(services.journal, caller.scope, ref)
    number = attempt_number(view, attempt)
    source = node_reports(view, number, node)
    page = await services.reports.log_lines(view.id, source, first=first, count=count)
    return JsonResponse(
        {
            "attempt": number,
            "total_lines": page.total_lines,
            "total_bytes": page.total_bytes,
            "unfinished_from": page.unfinished_from,
            "complete": _is_complete(view, number),
            "lines": [_render_line(line) for line in page.lines],
        }
    )


@router.get("/search", response_model=LogHits, response_description="Lines that match.")
async def search_log(
    ref: JobRef,
    services: ServicesDep,
    caller: CallerDep,
    q: Annotated[str, Query(min_length=1, max_length=1000)],
    attempt: AttemptNumber = None,
    node: NodeNumber = 0,
    case: bool = False,
    regex: bool = False,
    after: LineNumber = None,
    before: LineNumber = None,
    limit: Annotated[int, Query(ge=1, le=5000)] = 100,
    text: bool = True,
    count: bool = True,
) -> JsonResponse:
    """Search the lines after line `after`, or backwards the lines before line `before`.

    `case=true` distinguishes upper and lower case; `regex=true` searches for a regular expression (RE2 syntax).
    `text=false` leaves out the text of the hits. With `count=false` the search stops at `limit` hits, otherwise it
    counts the others. A search takes at most about a second; then the answer is `truncated`.
    """
    if after is not None and before is not None:
        raise InvalidSpec(
            [Problem("before", before, "cannot be combined with `after`; send one of the two", "", "query")]
        )
    view = await resolve_job(services.journal, caller.scope, ref)
    number = attempt_number(view, attempt)
    search = LogSearch(services.reports, services.clock, view.id, node_reports(view, number, node))
    found = await search.run(LogPattern(q, regex, case), after=after, before=before, limit=limit, count=count)
    hits = [_render_line(line, with_text=text) for line in found.lines]
    answer = {"attempt": number, "hits": hits, "total": found.total, "truncated": found.truncated}
    return JsonResponse({**answer, "next": found.next})


@router.get(
    "/file",
    responses=text_response("The whole log.", "text/plain", "epoch 1 loss 0.3\n"),
    response_class=StreamingResponse,
)
async def download_log(
    ref: JobRef,
    services: ServicesDep,
    caller: CallerDep,
    attempt: AttemptNumber = None,
    node: NodeNumber = 0,
) -> Response:
    """Download the log of an attempt as a file, as far as it is stored now."""
    view = await resolve_job(services.journal, caller.scope, ref)
    number = attempt_number(view, attempt)
    source, of_node = node_reports(view, number, node), f"-node-{node}" if node else ""
    name = f"{re.sub(r'[^A-Za-z0-9._-]+', '-', view.name) or view.id}-attempt-{number}{of_node}.log"
    headers = {
        "Content-Disposition": f'attachment; filename="{name}"',
        "X-Content-Type-Options": "nosniff",
    }
    return StreamingResponse(
        _read_log(services.reports, view.id, source), 200, headers, "text/plain; charset=utf-8"
    )


async def _read_log(reports: Reports, job_id: str, attempt: int) -> AsyncIterator[bytes]:
    """Yield the stored bytes of a log up to its current end."""
    part = await reports.log(job_id, attempt, offset=0, limit=PART_BYTES)
    end = part.end
    while part.data and part.start < end:
        yield part.data[: end - part.start]
        part = await reports.log(job_id, attempt, offset=part.start + len(part.data), limit=PART_BYTES)


def _is_complete(view: JobView, number: int) -> bool:
    return view.attempts[number - 1].is_over if number else view.is_terminal


def _render_line(line: LogLine, *, with_text: bool = True) -> dict[str, Any]:
    return {
        "number": line.number,
        "offset": line.offset,
        "text": line.text if with_text else "",
        "rest": line.rest,
        "at": format_optional_time(line.at_ms),
    }
