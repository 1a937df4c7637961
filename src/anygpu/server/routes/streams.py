"""Live streams of a project and of a job, as NDJSON and as WebSockets."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, suppress
from typing import Annotated

from fastapi import Query, WebSocket
from starlette.responses import StreamingResponse
from starlette.websockets import WebSocketDisconnect

from anygpu.errors import AnygpuError, InvalidSpec, Problem
from anygpu.server.encoding import dumps
from anygpu.server.http.errors import problem_body
from anygpu.server.http.openapi import text_response
from anygpu.server.http.route import api_router
from anygpu.server.jobs.resolve import resolve_job
from anygpu.server.live.sockets import encode_frames
from anygpu.server.live.stream import ALL_KINDS, MessageBatch, StreamPosition, follow_job, follow_project
from anygpu.server.routes.jobs import JobRef
from anygpu.server.services import CallerDep, ServicesDep

router = api_router("/api/v1", tag="stream")

Position = Annotated[int, Query(ge=0, le=2**53)]
Include = Annotated[str | None, Query(max_length=100)]
NDJSON = "application/x-ndjson"
SERVICE_RESTART = 1012  # WebSocket close code: connect again with the cursor
LINES = (
    '{"kind": "progress", "attempt": 1, "progress": {"fraction": 0.5}, "telemetry": {}}\n{"kind": "ping"}\n'
)


@router.get(
    "/stream",
    responses=text_response("Messages, one a line.", NDJSON, LINES),
    response_class=StreamingResponse,
)
async def stream_project(services: ServicesDep, caller: CallerDep, after: Position = 0) -> StreamingResponse:
    """Stream the events of the project after position `after`, and then each new event."""
    services.stream_sources.hub.require_capacity()
    return _ndjson(follow_project(services.stream_sources, caller.scope, after))


@router.websocket("/stream")
async def stream_project_socket(
    socket: WebSocket, services: ServicesDep, caller: CallerDep, after: Position = 0
) -> None:
    services.stream_sources.hub.require_capacity()
    await _send_to_socket(socket, follow_project(services.stream_sources, caller.scope, after))


@router.get(
    "/training/{ref}/stream",
    responses=text_response("Messages, one a line.", NDJSON, LINES),
    response_class=StreamingResponse,
)
async def stream_job(
    ref: JobRef,
    services: ServicesDep,
    caller: CallerDep,
    after: Position = 0,
    attempt: Position = 0,
    log: Position = 0,
    point: Position = 0,
    include: Include = None,
) -> StreamingResponse:
    """Stream events, logs, metrics and progress after the cursor, and then new ones, until the job has ended."""
    services.stream_sources.hub.require_capacity()
    view = await resolve_job(services.journal, caller.scope, ref)
    cursor = StreamPosition(after=after, attempt=attempt, log=log, point=point)
    return _ndjson(follow_job(services.stream_sources, caller.scope, view, cursor, parse_include(include)))


@router.websocket("/training/{ref}/stream")
async def stream_job_socket(
    socket: WebSocket,
    ref: JobRef,
    services: ServicesDep,
    caller: CallerDep,
    after: Position = 0,
    attempt: Position = 0,
    log: Position = 0,
    point: Position = 0,
    include: Include = None,
) -> None:
    services.stream_sources.hub.require_capacity()
    view = await resolve_job(services.journal, caller.scope, ref)
    cursor = StreamPosition(after=after, attempt=attempt, log=log, point=point)
    await _send_to_socket(
        socket, follow_job(services.stream_sources, caller.scope, view, cursor, parse_include(include))
    )


def parse_include(include: str | None) -> frozenset[str]:
    if include is None:
        return ALL_KINDS
    kinds = frozenset(part.strip() for part in include.split(",") if part.strip())
    if unknown := kinds - ALL_KINDS:
        known = f"known: {', '.join(sorted(ALL_KINDS))}"
        raise InvalidSpec([Problem("include", sorted(unknown)[0], "unknown kind", known, "query")])
    return kinds or ALL_KINDS


def _ndjson(batches: AsyncGenerator[MessageBatch, None]) -> StreamingResponse:
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(_lines(batches), 200, headers, NDJSON)


async def _lines(batches: AsyncGenerator[MessageBatch, None]) -> AsyncIterator[bytes]:
    async with aclosing(batches):
        async for texts in batches:
            yield ("\n".join(texts) + "\n").encode()


async def _send_to_socket(socket: WebSocket, batches: AsyncGenerator[MessageBatch, None]) -> None:
    """Send the batches to the client until the stream ends or the client disconnects."""
    await socket.accept()
    sender = asyncio.create_task(_send_batches(socket, batches))
    listener = asyncio.create_task(_wait_for_disconnect(socket))
    try:
        await asyncio.wait({sender, listener}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        listener.cancel()
        sender.cancel()
        await asyncio.gather(sender, listener, return_exceptions=True)


async def _send_batches(socket: WebSocket, batches: AsyncGenerator[MessageBatch, None]) -> None:
    ended = False
    with suppress(WebSocketDisconnect, OSError, RuntimeError):
        try:
            async with aclosing(batches):
                async for texts in batches:
                    await socket.send({"type": "websocket.send", "frames": encode_frames(texts)})
                    ended = texts[-1].startswith('{"kind": "end"')
        except AnygpuError as error:
            await socket.send_text(dumps({"kind": "problem", "problem": problem_body(error)}))
        await socket.close(1000 if ended else SERVICE_RESTART)


async def _wait_for_disconnect(socket: WebSocket) -> None:
    """Read and ignore messages of the client until it disconnects."""
    while (await socket.receive())["type"] != "websocket.disconnect":
        pass
