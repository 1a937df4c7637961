"""One WebSocket of a client that follows its project and several jobs at once.

Each follow is a task that sends batches of messages as they come. A client that reads slowly makes its own tasks wait;
they then continue from their cursors, so the server keeps nothing in memory for it.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Coroutine
from contextlib import ExitStack, aclosing, suppress
from time import monotonic
from typing import Any

from fastapi import WebSocket
from starlette.websockets import WebSocketDisconnect, WebSocketState

from anygpu.api.live import FollowRequest, UnfollowRequest
from anygpu.errors import AnygpuError, Conflict, Internal, InvalidSpec, Problem, Unauthorized
from anygpu.server.encoding import dumps
from anygpu.server.http.bodies import parse_body
from anygpu.server.http.errors import MalformedRequest, problem_body
from anygpu.server.jobs.resolve import require_node, resolve_job
from anygpu.server.live.sockets import encode_frames
from anygpu.server.live.stream import (
    ALL_KINDS,
    PING,
    PING_INTERVAL_S,
    MessageBatch,
    StreamPosition,
    follow_job,
    follow_project,
    is_end,
)
from anygpu.server.process import log
from anygpu.server.services import Services
from anygpu.tenancy.auth import Caller
from anygpu.tenancy.stream_access import StreamAccess

MAX_FOLLOWS = 64  # the page that compares 40 runs follows each of them
MAX_ID = 64
POLICY_VIOLATION, SERVICE_RESTART = 1008, 1012  # WebSocket close codes
GONE = (WebSocketDisconnect, OSError, RuntimeError)  # raised when the client has disconnected


class LiveSession:
    """Serves one client until it disconnects, its token ends, or the server stops."""

    def __init__(self, socket: WebSocket, services: Services, caller: Caller) -> None:
        self._socket, self._services, self._caller = socket, services, caller
        self._sources = services.stream_sources
        self._follows: dict[str, asyncio.Task[None]] = {}
        self._sent_at = monotonic()

    async def run(self) -> None:
        revoked = asyncio.Event()
        access = self._open_access()
        access.call_at_end(revoked.set)
        waits = (self._receive(), self._send_pings(), self._sources.hub.wait_closed(), revoked.wait())
        tasks = [asyncio.ensure_future(each) for each in waits]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _cancel([*tasks, *self._follows.values()])
        with suppress(*GONE):
            await self._close(access)

    async def _close(self, access: StreamAccess) -> None:
        try:
            access.require()
            code = SERVICE_RESTART
        except Unauthorized as error:
            await self._send_problem(None, error)
            code = POLICY_VIOLATION
        await self._socket.close(code)

    async def _receive(self) -> None:
        """Handle the client's messages, one after the other, until it disconnects."""
        with suppress(*GONE):
            while (message := await self._socket.receive())["type"] != "websocket.disconnect":
                await self._handle(message.get("text"))

    async def _handle(self, text: str | None) -> None:
        request: Any = None
        try:
            request = _parse(text)
            if request.get("op") == "unfollow":
                await self._unfollow(parse_body(UnfollowRequest, request).id)
            elif request.get("op") == "follow":
                await self._follow(parse_body(FollowRequest, request))
            else:
                message = "must be `follow` or `unfollow`"
                raise InvalidSpec([Problem("op", None, message, source="message")])
        except AnygpuError as error:
            await self._send_problem(_follow_id(request), error)

    async def _follow(self, request: FollowRequest) -> None:
        if request.project == (request.job is not None):
            message = "set either `project` to true or `job` to a job"
            raise InvalidSpec([Problem("job", None, message, source="message")])
        await self._unfollow(request.id)
        if len(self._follows) >= MAX_FOLLOWS:
            raise Conflict(
                f"this connection already has {MAX_FOLLOWS} follows", hint="End one with `unfollow` first."
            )
        self._sources.hub.require_capacity()
        with ExitStack() as counted:
            counted.enter_context(self._sources.hub.count_follower())
            follow = (
                await self._project_follow(request) if request.project else await self._job_follow(request)
            )
            end_count = counted.pop_all().close
        self._follows[request.id] = task = asyncio.create_task(follow)
        task.add_done_callback(lambda done: end_count())
        task.add_done_callback(lambda done: self._forget(request.id, done))

    async def _unfollow(self, follow_id: str) -> None:
        if task := self._follows.pop(follow_id, None):
            await _cancel([task])

    def _forget(self, follow_id: str, task: asyncio.Task[None]) -> None:
        if self._follows.get(follow_id) is task:
            del self._follows[follow_id]

    async def _project_follow(self, request: FollowRequest) -> Coroutine[Any, Any, None]:
        head = await self._sources.journal.head(self._caller.scope)
        if not _continues(request, head):
            await self._send(request.id, [dumps({"kind": "position", "after": head})])
            return self._follow_project(request.id, head)
        return self._follow_project(request.id, int(request.after))

    async def _follow_project(self, follow_id: str, after: int) -> None:
        scope = self._caller.scope
        events = follow_project(self._sources, scope, after, self._open_access())
        summaries = self._services.summary_feeds.follow(scope, after, self._open_access())
        await self._serve(follow_id, events, summaries)

    async def _job_follow(self, request: FollowRequest) -> Coroutine[Any, Any, None]:
        if request.after == "now":
            message = "must be a position; only a project can be followed from now"
            raise InvalidSpec([Problem("after", "now", message, source="message")])
        view = await resolve_job(self._sources.journal, self._caller.scope, request.job or "")
        require_node(view, request.node)
        cursor = StreamPosition(
            after=request.after,
            attempt=request.attempt,
            log=request.log,
            point=request.point,
            node=request.node,
        )
        kinds = frozenset(request.include or ALL_KINDS)
        batches = follow_job(self._sources, self._caller.scope, view, cursor, kinds, self._open_access())
        return self._watch(view.id, self._serve(request.id, batches))

    async def _watch(self, job_id: str, sending: Coroutine[Any, Any, None]) -> None:
        with self._sources.hub.watch(job_id):
            await sending

    def _open_access(self) -> StreamAccess:
        return self._services.stream_access.open(self._caller.token_id, self._caller.parent)

    async def _serve(self, follow_id: str, *streams: AsyncGenerator[MessageBatch, None]) -> None:
        """Send the messages of a follow. A problem of one of its streams ends all of them."""
        with suppress(*GONE):
            try:
                async with asyncio.TaskGroup() as group:
                    for batches in streams:
                        group.create_task(self._send_batches(follow_id, batches))
            except ExceptionGroup as failed:
                await self._send_failure(follow_id, failed.exceptions[0])

    async def _send_batches(self, follow_id: str, batches: AsyncGenerator[MessageBatch, None]) -> None:
        async with aclosing(batches):
            async for texts in batches:
                if texts[-1] is not PING:  # pings are for the whole connection
                    await self._send(follow_id, texts)

    async def _send_failure(self, follow_id: str, error: Exception) -> None:
        if WebSocketState.DISCONNECTED in (self._socket.client_state, self._socket.application_state):
            return
        if not isinstance(error, AnygpuError):
            log.failure("a live follow failed", error)  # a bug ends this follow, and not the others
            error = Internal()
        await self._send_problem(follow_id, error)

    async def _send(self, follow_id: str, texts: MessageBatch) -> None:
        name = json.dumps(follow_id)
        if is_end(texts):
            status = dumps({"status": json.loads(texts[-1])["status"]})
            await self._send_text(f'{{"id":{name},"end":{status}}}')
        else:
            await self._send_text(f'{{"id":{name},"messages":[{",".join(texts)}]}}')

    async def _send_problem(self, follow_id: str | None, error: AnygpuError) -> None:
        await self._send_text(dumps({"id": follow_id, "problem": problem_body(error)}))

    async def _send_text(self, text: str) -> None:
        self._sent_at = monotonic()
        await self._socket.send({"type": "websocket.send", "frames": encode_frames([text])})

    async def _send_pings(self) -> None:
        with suppress(*GONE):
            while True:
                wait_s = self._sent_at + PING_INTERVAL_S - monotonic()
                if wait_s > 0:
                    await asyncio.sleep(wait_s)
                else:
                    await self._send_text(PING)


def _continues(request: FollowRequest, head: int) -> bool:
    """Return whether a follow of the project gets the events after its cursor, instead of starting at `head`."""
    # A cursor beyond the newest event is from another database, such as one before a restore.
    if request.after == "now" or request.after > head:
        return False
    return request.max_replay is None or head - request.after <= request.max_replay


def _parse(text: str | None) -> dict[str, Any]:
    try:
        request = json.loads(text or "")
    except (ValueError, RecursionError):
        raise MalformedRequest("the message is not valid JSON; send a JSON object") from None
    if not isinstance(request, dict):
        raise MalformedRequest("the message is not a JSON object; send one")
    return request


def _follow_id(request: Any) -> str | None:
    """Return the id of the follow that a message is about, if it has a usable one."""
    follow_id = request.get("id") if isinstance(request, dict) else None
    return follow_id if isinstance(follow_id, str) and 0 < len(follow_id) <= MAX_ID else None


async def _cancel(tasks: list[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
