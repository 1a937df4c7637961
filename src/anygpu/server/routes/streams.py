"""The stream, as NDJSON and as a WebSocket."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, suppress
from typing import Annotated

from fastapi import APIRouter, Query, WebSocket
from starlette.responses import StreamingResponse
from starlette.websockets import WebSocketDisconnect

from anygpu.errors import AnygpuError, InvalidSpec, Problem
from anygpu.server.documented import gives
from anygpu.server.evidence_reader import dumps
from anygpu.server.problems import body_of
from anygpu.server.resolve import resolve
from anygpu.server.routes.training import Ref
from anygpu.server.services import Asking, Served
from anygpu.server.sockets import frames_of
from anygpu.server.stream import EVERYTHING, Cursor, Texts, follow_job, follow_project

router = APIRouter(prefix="/api/v1", tags=["stream"])

Position = Annotated[int, Query(ge=0, le=2**53)]
Include = Annotated[str | None, Query(max_length=100)]
NDJSON = "application/x-ndjson"
GOING_AWAY = 1012
LINES = (
    '{"kind": "progress", "attempt": 1, "progress": {"fraction": 0.5}, "telemetry": {}}\n{"kind": "ping"}\n'
)


@router.get(
    "/stream", responses=gives("Messages, one a line.", NDJSON, LINES), response_class=StreamingResponse
)
async def project_stream(served: Served, asking: Asking, after: Position = 0) -> StreamingResponse:
    """Every event of the project behind `after`, then each as it happens."""
    served.sources.hub.require_room()
    return _ndjson(follow_project(served.sources, asking.scope, after))


@router.websocket("/stream")
async def project_socket(socket: WebSocket, served: Served, asking: Asking, after: Position = 0) -> None:
    served.sources.hub.require_room()
    await _send_all(socket, follow_project(served.sources, asking.scope, after))


@router.get(
    "/training/{ref}/stream",
    responses=gives("Messages, one a line.", NDJSON, LINES),
    response_class=StreamingResponse,
)
async def job_stream(
    ref: Ref,
    served: Served,
    asking: Asking,
    after: Position = 0,
    attempt: Position = 0,
    log: Position = 0,
    point: Position = 0,
    include: Include = None,
) -> StreamingResponse:
    """Events, logs, metrics and progress behind the cursor, then as they come, until the job has ended."""
    served.sources.hub.require_room()
    view = await resolve(served.journal, asking.scope, ref)
    cursor = Cursor(after=after, attempt=attempt, log=log, point=point)
    return _ndjson(follow_job(served.sources, asking.scope, view, cursor, wanted(include)))


@router.websocket("/training/{ref}/stream")
async def job_socket(
    socket: WebSocket,
    ref: Ref,
    served: Served,
    asking: Asking,
    after: Position = 0,
    attempt: Position = 0,
    log: Position = 0,
    point: Position = 0,
    include: Include = None,
) -> None:
    served.sources.hub.require_room()
    view = await resolve(served.journal, asking.scope, ref)
    cursor = Cursor(after=after, attempt=attempt, log=log, point=point)
    await _send_all(socket, follow_job(served.sources, asking.scope, view, cursor, wanted(include)))


def wanted(include: str | None) -> frozenset[str]:
    if include is None:
        return EVERYTHING
    kinds = frozenset(part.strip() for part in include.split(",") if part.strip())
    if unknown := kinds - EVERYTHING:
        known = f"known: {', '.join(sorted(EVERYTHING))}"
        raise InvalidSpec([Problem("include", sorted(unknown)[0], "unknown kind", known, "query")])
    return kinds or EVERYTHING


def _ndjson(batches: AsyncGenerator[Texts, None]) -> StreamingResponse:
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(_lines(batches), 200, headers, NDJSON)


async def _lines(batches: AsyncGenerator[Texts, None]) -> AsyncIterator[bytes]:
    async with aclosing(batches):
        async for texts in batches:
            yield ("\n".join(texts) + "\n").encode()


async def _send_all(socket: WebSocket, batches: AsyncGenerator[Texts, None]) -> None:
    """Send until the stream or the client ends, whichever is first."""
    await socket.accept()
    sender = asyncio.create_task(_sender(socket, batches))
    listener = asyncio.create_task(_until_gone(socket))
    try:
        await asyncio.wait({sender, listener}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        listener.cancel()
        sender.cancel()
        await asyncio.gather(sender, listener, return_exceptions=True)


async def _sender(socket: WebSocket, batches: AsyncGenerator[Texts, None]) -> None:
    ended = False
    with suppress(WebSocketDisconnect, OSError, RuntimeError):
        try:
            async with aclosing(batches):
                async for texts in batches:
                    await socket.send({"type": "websocket.send", "frames": frames_of(texts)})
                    ended = texts[-1].startswith('{"kind": "end"')
        except AnygpuError as error:
            await socket.send_text(dumps({"kind": "problem", "problem": body_of(error)}))
        await socket.close(1000 if ended else GOING_AWAY)


async def _until_gone(socket: WebSocket) -> None:
    """Clients have nothing to say here; what they send is read and dropped."""
    while (await socket.receive())["type"] != "websocket.disconnect":
        pass
