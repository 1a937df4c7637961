"""A TCP proxy that a test can make abort its connections, lose their data, or refuse new connections."""

import asyncio
import contextlib


class CuttableProxy:
    """A proxy that forwards connections to a port until the test aborts them, or after `bytes_left` bytes."""

    def __init__(self, port: int) -> None:
        self.target = port
        self.port = 0
        self.bytes_left: int | None = None  # bytes to the target until the proxy cuts all connections
        self.connections = self.refused = 0
        self._down = False
        self._frozen: set[asyncio.StreamWriter] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> "CuttableProxy":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *error: object) -> None:
        self._server.close()
        self._down = True
        self.cut()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(0.01)  # aborted transports close in the next iterations of the event loop

    def cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    def freeze(self) -> None:
        """Discard the data of all open connections without closing them, as when a laptop is suspended."""
        self._frozen |= self._writers

    def take_down(self) -> None:
        self._down = True
        self.cut()

    def bring_up(self) -> None:
        self._down = False

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._down:
            self.refused += 1
            writer.transport.abort()
            return
        self.connections += 1
        if (task := asyncio.current_task()) is not None:
            self._tasks.add(task)
        self._writers.add(writer)
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.transport.abort()
            return
        self._writers.add(far_writer)
        back = asyncio.create_task(self._pass(far_reader, writer, counted=False))
        self._tasks.add(back)
        await self._pass(reader, far_writer, counted=True)

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, counted: bool
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(4096):
                if writer in self._frozen:
                    continue
                if counted and self._use_up(len(data)):
                    self.cut()
                writer.write(data)
                await writer.drain()
        with contextlib.suppress(OSError, RuntimeError):
            writer.close()

    def _use_up(self, count: int) -> bool:
        if self.bytes_left is None:
            return False
        self.bytes_left -= count
        if self.bytes_left >= 0:
            return False
        self.bytes_left = None
        return True
