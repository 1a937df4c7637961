"""A small TCP proxy in front of several servers: each connection goes to a server that accepts it."""

import asyncio
import contextlib
import threading
from types import TracebackType
from urllib.parse import urlsplit

CONNECT_LIMIT_S = 5.0


class BalancingProxy:
    """A proxy with a fixed address. Connections take turns among the servers; one that refuses is skipped.

    `set_targets` replaces the list of servers. Connections that are open stay open.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._targets: list[tuple[str, int]] = []
        self._turn = 0
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        assert self._server is not None
        host, port = self._server.sockets[0].getsockname()
        return f"http://{host}:{port}"

    def set_targets(self, urls: list[str]) -> None:
        parts = [urlsplit(url) for url in urls]
        self._targets = [(part.hostname or "", part.port or 80) for part in parts]

    def __enter__(self) -> "BalancingProxy":
        self._thread.start()
        starting = asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=256)
        self._server = asyncio.run_coroutine_threadsafe(starting, self._loop).result()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _stop(self) -> None:
        assert self._server is not None
        self._server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            server = await self._connect()
            if server is None:
                return
            server_reader, server_writer = server
            try:
                ways = [_forward(reader, server_writer), _forward(server_reader, writer)]
                tasks = [asyncio.ensure_future(way) for way in ways]
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in tasks:
                    task.cancel()
            finally:
                server_writer.close()
        except asyncio.CancelledError:
            return
        finally:
            writer.close()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        """Connect to the next server that accepts. None if none does."""
        targets = self._targets
        self._turn += 1
        for number in range(len(targets)):
            host, port = targets[(self._turn + number) % len(targets)]
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(CONNECT_LIMIT_S):
                    return await asyncio.open_connection(host, port)
        return None


async def _forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Forward bytes until one side closes its connection."""
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
