"""Serve the vendors' APIs on loopback addresses, and drop responses if a fault requires it."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import uvicorn
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from anygpu.cloudsim.cloud import CURRENT_CALL, Cloud, SimulatedCall
from anygpu.cloudsim.faults import FaultContext, FaultKind, InjectedFault

BACKLOG = 512
KEEP_ALIVE_S = 75  # longer than clients keep idle connections: none is closed during a request


class LoopbackListener:
    """An HTTP server for one application on several addresses.

    In the application, `scope["server"]` is the address that the client called.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._config = uvicorn.Config(
            app,
            http="httptools",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE_S,
        )
        self._config.load()
        self._state = ServerState()
        self._servers: dict[str, asyncio.Server] = {}

    async def listen(self, host: str, port: int) -> int:
        """Listen on an address and return the port (a free one if `port` is 0)."""
        loop = asyncio.get_running_loop()
        server = await loop.create_server(self._protocol, host, port, backlog=BACKLOG)
        self._servers[host] = server
        bound: int = server.sockets[0].getsockname()[1]
        return bound

    def stop_listening(self, host: str) -> None:
        """Stop listening on an address and abort its connections."""
        if (server := self._servers.pop(host, None)) is not None:
            server.close()
        for connection in self._connections(server=host):
            connection.transport.abort()

    def drop_connection(self, scope: Scope) -> None:
        """Abort the connection of this request."""
        for connection in self._connections(client=tuple(scope["client"] or ())):
            connection.transport.abort()

    async def close(self) -> None:
        for host in list(self._servers):
            self.stop_listening(host)
        for task in self._state.tasks:
            task.cancel()
        await asyncio.gather(*self._state.tasks, return_exceptions=True)

    def _protocol(self) -> asyncio.Protocol:
        return HttpToolsProtocol(config=self._config, server_state=self._state, app_state={})

    def _connections(self, *, server: str = "", client: tuple[Any, ...] = ()) -> list[HttpToolsProtocol]:
        return [
            connection
            for connection in self._state.connections
            if isinstance(connection, HttpToolsProtocol)
            and (
                (server and connection.server and connection.server[0] == server)
                or connection.client == client
            )
        ]


ORIGINAL_PATH = "anygpu.full_path"  # scope key of the original path, which the client has signed


def route_by_prefix(apps: Mapping[str, ASGIApp]) -> ASGIApp:
    """Return an application that routes by the first part of the path: `/ec2/…` goes to `ec2` as `/…`."""

    async def route(scope: Scope, receive: Receive, send: Send) -> None:
        name, _, rest = scope["path"].removeprefix("/").partition("/")
        app = apps.get(name) or PlainTextResponse(
            f"There is no API under this path. The first part of the path must be one of {', '.join(apps)}.\n",
            status_code=404,
        )
        inner = {
            **scope,
            "root_path": "",
            "path": f"/{rest}",
            "raw_path": f"/{rest}".encode(),
            ORIGINAL_PATH: scope["path"],
        }
        await app(inner, receive, send)

    return route


class ResponseDropper:
    """Middleware that executes each call, then aborts the connection if a fault `lost_answer` matches the call."""

    def __init__(self, app: ASGIApp, cloud: Cloud, cut: Callable[[Scope], None]) -> None:
        self._app = app
        self._cloud = cloud
        self._drop_connection = cut

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        call = SimulatedCall()
        CURRENT_CALL.set(call)
        buffered: list[Message] = []

        async def hold(message: Message) -> None:
            buffered.append(message)

        await self._app(scope, receive, hold)
        if (fault := self._find_fault(call)) is not None:
            await asyncio.sleep(fault.seconds)
            self._drop_connection(scope)
            return
        for message in buffered:
            await send(message)

    def _find_fault(self, call: SimulatedCall) -> InjectedFault | None:
        context = FaultContext(vendor=call.vendor, operations=call.operations)
        return self._cloud.faults.trigger(FaultKind.LOST_ANSWER, context) if call.vendor else None
