"""Live streams of a project and of a job, as NDJSON and as WebSockets."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, suppress
from typing import Annotated

from fastapi import Query, WebSocket
from starlette.responses import StreamingResponse
from starlette.websockets import WebSocketDisconnect

from anygpu.errors import AnygpuError, InvalidSpec, Problem, Unauthorized
from anygpu.events.view import JobView
from anygpu.server.encoding import dumps
from anygpu.server.http.errors import problem_body
from anygpu.server.http.openapi import text_response
from anygpu.server.http.route import api_router
from anygpu.server.jobs.resolve import require_node, resolve_job
from anygpu.server.live.hub import Hub
from anygpu.server.live.sockets import encode_frames
from anygpu.server.live.stream import (
    ALL_KINDS,
    MessageBatch,
    StreamPosition,
    follow_job,
    follow_project,
    is_end,
)
from anygpu.server.routes.training.jobs import JobRef
from anygpu.server.routes.training.reports import NodeNumber
from anygpu.server.services import CallerDep, Services, ServicesDep
from anygpu.tenancy.auth import Caller
from anygpu.tenancy.stream_access import StreamAccess

router = api_router("/api/v1", tag="stream")

Position = Annotated[int, Query(ge=0, le=2**53)]
Include = Annotated[str | None, Query(max_length=100)]
NDJSON = "application/x-ndjson"
# WebSocket close codes. After a restart of the server, clients connect again with their cursor.
NORMAL_END, POLICY_VIOLATION, SERVICE_RESTART = 1000, 1008, 1012
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
    batches = follow_project(services.stream_sources, caller.scope, after, _access(services, caller))
    return _ndjson(services, batches)


@router.websocket("/stream")
async def stream_project_socket(
    socket: WebSocket, services: ServicesDep, caller: CallerDep, after: Position = 0
) -> None:
    services.stream_sources.hub.require_capacity()
    batches = follow_project(services.stream_sources, caller.scope, after, _access(services, caller))
    await _send_to_socket(socket, services, batches)


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
    node: NodeNumber = 0,
    include: Include = None,
) -> StreamingResponse:
    """Stream events, logs, metrics and progress after the cursor, and then new ones, until the job has ended.

    `node` selects the machine whose log and telemetry are streamed, of a job on several machines. Metrics are those of
    node 0, and are only in its stream.
    """
    services.stream_sources.hub.require_capacity()
    view = await resolve_job(services.journal, caller.scope, ref)
    require_node(view, node)
    cursor = StreamPosition(after=after, attempt=attempt, log=log, point=point, node=node)
    return _ndjson(services, _follow_job(services, caller, view, cursor, include))


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
    node: NodeNumber = 0,
    include: Include = None,
) -> None:
    services.stream_sources.hub.require_capacity()
    view = await resolve_job(services.journal, caller.scope, ref)
    require_node(view, node)
    cursor = StreamPosition(after=after, attempt=attempt, log=log, point=point, node=node)
    await _send_to_socket(socket, services, _follow_job(services, caller, view, cursor, include))


def _follow_job(
    services: Services, caller: Caller, view: JobView, cursor: StreamPosition, include: str | None
) -> AsyncGenerator[MessageBatch, None]:
    kinds = parse_include(include)
    access = _access(services, caller)
    return follow_job(services.stream_sources, caller.scope, view, cursor, kinds, access)


def _access(services: Services, caller: Caller) -> StreamAccess:
    return services.stream_access.open(caller.token_id, caller.parent)


def parse_include(include: str | None) -> frozenset[str]:
    if include is None:
        return ALL_KINDS
    kinds = frozenset(part.strip() for part in include.split(",") if part.strip())
    if unknown := kinds - ALL_KINDS:
        known = f"the kinds are {', '.join(sorted(ALL_KINDS))}"
        raise InvalidSpec(
            [Problem("include", sorted(unknown)[0], "is not a kind of message", known, "query")]
        )
    return kinds or ALL_KINDS


def _ndjson(services: Services, batches: AsyncGenerator[MessageBatch, None]) -> StreamingResponse:
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(_lines(services.stream_sources.hub, batches), 200, headers, NDJSON)


async def _lines(hub: Hub, batches: AsyncGenerator[MessageBatch, None]) -> AsyncIterator[bytes]:
    try:
        with hub.count_follower():
            async with aclosing(batches):
                async for texts in batches:
                    yield ("\n".join(texts) + "\n").encode()
    except AnygpuError as error:
        yield (_problem_message(error) + "\n").encode()


def _problem_message(error: AnygpuError) -> str:
    return dumps({"kind": "problem", "problem": problem_body(error)})


async def _send_to_socket(
    socket: WebSocket, services: Services, batches: AsyncGenerator[MessageBatch, None]
) -> None:
    """Send the batches to the client until the stream ends or the client disconnects."""
    with services.stream_sources.hub.count_follower():
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
    code = SERVICE_RESTART
    with suppress(WebSocketDisconnect, OSError, RuntimeError):
        try:
            async with aclosing(batches):
                async for texts in batches:
                    await socket.send({"type": "websocket.send", "frames": encode_frames(texts)})
                    code = NORMAL_END if is_end(texts) else SERVICE_RESTART
        except AnygpuError as error:
            await socket.send_text(_problem_message(error))
            code = POLICY_VIOLATION if isinstance(error, Unauthorized) else SERVICE_RESTART
        await socket.close(code)


async def _wait_for_disconnect(socket: WebSocket) -> None:
    """Read and ignore messages of the client until it disconnects."""
    while (await socket.receive())["type"] != "websocket.disconnect":
        pass
