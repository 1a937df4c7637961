"""Pass a request from a mailbox to the agent API in this process, as its listener does with requests over HTTP."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import unquote

from starlette.types import ASGIApp, Message

from anygpu.server.process import log
from anygpu.server.relay.messages import MessageBody, RelayAnswer, RelayRequest

QUEUED_PIECES = 4
PASSED_BACK = ("content-type", "retry-after", "content-range", "accept-ranges")


class AppCaller:
    """Calls an ASGI application for each request."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    @asynccontextmanager
    async def __call__(self, request: RelayRequest, body: MessageBody) -> AsyncIterator[RelayAnswer]:
        """Context manager that returns the answer. The application runs until the end of the `with` block."""
        call = _AppCall(body)
        task = asyncio.create_task(self._run(request, call))
        try:
            yield await call.answer()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self, request: RelayRequest, call: "_AppCall") -> None:
        try:
            await self._app(_scope(request), call.receive, call.send)
        except Exception as error:  # noqa: BLE001  the application has answered with status 500
            if call.body.failure is None:
                log.failure("a request from a mailbox failed", error)
        await call.send({"type": "http.response.body", "body": b"", "more_body": False})


class _AppCall:
    """One call of the application: its request body, and the queue through which its answer comes back."""

    def __init__(self, body: MessageBody) -> None:
        self.body = body
        self._pieces = aiter(body)
        self._queue: asyncio.Queue[Message] = asyncio.Queue(QUEUED_PIECES)
        self._ended = False

    async def receive(self) -> Message:
        if self._ended:
            await asyncio.Event().wait()  # the agent never disconnects
        try:
            piece = await anext(self._pieces, None)
        except Exception:  # noqa: BLE001  the caller sees `body.failure`
            self._ended = True
            return {"type": "http.disconnect"}
        if piece is None:
            self._ended = True
            return {"type": "http.request", "body": b"", "more_body": False}
        return {"type": "http.request", "body": piece, "more_body": True}

    async def send(self, message: Message) -> None:
        await self._queue.put(message)

    async def answer(self) -> RelayAnswer:
        """Wait for the beginning of the answer, and return it."""
        start = await self._queue.get()
        if start["type"] != "http.response.start":
            raise RuntimeError("the agent API ended without an answer")
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1") for name, value in start["headers"]
        }
        passed = {name: value for name, value in headers.items() if name in PASSED_BACK}
        if headers.get("content-length", "").isdigit():
            size = int(headers["content-length"])
            return RelayAnswer(status=start["status"], headers=passed, size=size, body=self._exactly(size))
        whole = b"".join([piece async for piece in self._body()])
        return RelayAnswer(status=start["status"], headers=passed, size=len(whole), body=_one_piece(whole))

    async def _exactly(self, size: int) -> AsyncIterator[bytes]:
        async for piece in self._body():
            size -= len(piece)
            yield piece
        if size:
            raise RuntimeError("the agent API sent another number of bytes than it had announced")

    async def _body(self) -> AsyncIterator[bytes]:
        while True:
            message = await self._queue.get()
            if message.get("body"):
                yield bytes(message["body"])
            if not message.get("more_body", False):
                return


async def _one_piece(whole: bytes) -> AsyncIterator[bytes]:
    yield whole


def _scope(request: RelayRequest) -> dict[str, Any]:
    path, _, query = request.path.partition("?")
    headers = {**request.headers, "content-length": str(request.size), "host": "relay"}
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode("ascii"),
        "query_string": query.encode("ascii"),
        "root_path": "",
        "headers": [(name.encode("ascii"), value.encode("ascii")) for name, value in headers.items()],
        "client": ("relay", 0),
        "server": ("relay", 80),
    }
