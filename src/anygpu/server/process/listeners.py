"""Bind the sockets, and run the two HTTP listeners of a server process: one for the API, one for agents."""

import asyncio
import gc
import socket
import sys
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from anygpu.server.live.sockets import SharedFrameProtocol
from anygpu.server.process.connections import (
    KEEP_ALIVE_S,
    ConnectionLimits,
    ConnectionTable,
    LimitedProtocol,
)

BACKLOG = 2048
TICKS_PER_CHECK = 10  # uvicorn has ten ticks a second
MESSAGE_BYTES = 64 * 1024  # clients of streams send nothing


class UvicornListener(uvicorn.Server):
    """A uvicorn server without signal handling, because one process runs two of them and stops them itself."""

    def __init__(
        self, app: ASGIApp, bound: socket.socket, *, grace_s: float, limits: ConnectionLimits
    ) -> None:
        self._connections = ConnectionTable(limits)
        super().__init__(_config(app, grace_s, self._connections))
        self._socket = bound
        self._started = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._started.set()

    async def on_tick(self, counter: int) -> bool:
        if counter % TICKS_PER_CHECK == 0:
            self._connections.close_slow_clients(asyncio.get_running_loop().time())
        return await super().on_tick(counter)

    async def start(self) -> None:
        """Start the listener, and return when it accepts connections."""
        self._task = asyncio.create_task(self.serve(sockets=[self._socket]))
        up = asyncio.create_task(self._started.wait())
        await asyncio.wait({self._task, up}, return_when=asyncio.FIRST_COMPLETED)
        if self._task.done():
            up.cancel()
            self._task.result()

    async def stop(self) -> None:
        self.should_exit = True
        if self._task is not None:
            await self._task


def bind(host: str, port: int) -> socket.socket:
    """Return a socket bound to the address. A restarted server can bind the same address again at once."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
    except OSError:
        bound.close()
        raise
    bound.setblocking(False)
    return bound


def local_url(bound: socket.socket) -> str:
    """Return the URL at which programs on this machine reach the socket."""
    host, port = bound.getsockname()[:2]
    here = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared, not bound
    return f"http://[{here}]:{port}" if ":" in here else f"http://{here}:{port}"


def _config(app: ASGIApp, grace_s: float, connections: ConnectionTable) -> uvicorn.Config:
    protocol: Any = partial(LimitedProtocol, connections)
    return uvicorn.Config(
        app,
        http=protocol,
        ws=SharedFrameProtocol,
        ws_max_size=MESSAGE_BYTES,
        ws_per_message_deflate=False,  # all clients get the same frames
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=min(BACKLOG, connections.limits.connections),
        timeout_keep_alive=round(KEEP_ALIVE_S),
        timeout_graceful_shutdown=max(1, round(grace_s)),
    )


# A server with a thousand machines has a million objects. With the default thresholds, a full collection would run
# every second or two and take half a second. With these it runs after ten million new objects. The first threshold is
# high because bursts of allocations happen when the server is busy: a collection after hundreds of lost connections
# takes 0.1 s and can wait.
GC_THRESHOLDS = (100_000, 10, 10)
# While a thread computes, the event loop gets the interpreter back after this time.
SWITCH_INTERVAL_S = 0.0005


def freeze_gc() -> None:
    """Tune the garbage collector. Call it once all objects that live as long as the server have been created."""
    gc.freeze()  # later collections skip the objects that exist now
    gc.set_threshold(*GC_THRESHOLDS)
    gc.enable()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
