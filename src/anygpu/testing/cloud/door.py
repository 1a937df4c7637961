"""HTTP on any number of loopback addresses for one application, with connections that can be cut."""

import asyncio
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Scope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

BACKLOG = 512
KEEP_ALIVE_S = 75  # longer than clients keep idle connections, so that none is closed under a request


class Door:
    """Listens where it is told. A listener costs one socket; the application tells them apart by `scope["server"]`."""

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

    async def open(self, host: str, port: int) -> int:
        """The port it listens on, which is another one when 0 was asked for."""
        loop = asyncio.get_running_loop()
        server = await loop.create_server(self._protocol, host, port, backlog=BACKLOG)
        self._servers[host] = server
        bound: int = server.sockets[0].getsockname()[1]
        return bound

    def shut(self, host: str) -> None:
        """Stops listening there and breaks its connections."""
        if (server := self._servers.pop(host, None)) is not None:
            server.close()
        for connection in self._at(server=host):
            connection.transport.abort()

    def cut(self, scope: Scope) -> None:
        """The connection of this request ends without an answer."""
        for connection in self._at(client=tuple(scope["client"] or ())):
            connection.transport.abort()

    async def close(self) -> None:
        for host in list(self._servers):
            self.shut(host)
        for task in self._state.tasks:
            task.cancel()
        await asyncio.gather(*self._state.tasks, return_exceptions=True)

    def _protocol(self) -> asyncio.Protocol:
        return HttpToolsProtocol(config=self._config, server_state=self._state, app_state={})

    def _at(self, *, server: str = "", client: tuple[Any, ...] = ()) -> list[HttpToolsProtocol]:
        return [
            connection
            for connection in self._state.connections
            if isinstance(connection, HttpToolsProtocol)
            and (
                (server and connection.server and connection.server[0] == server)
                or connection.client == client
            )
        ]
