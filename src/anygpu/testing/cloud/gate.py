"""What stands between a machine and the network: it breaks connections, or lets them hang as if a cable was cut."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, cast

BACKLOG = 128


class Gate:
    """All connections of one machine. Listens on any number of its addresses."""

    def __init__(self) -> None:
        self.connected = True
        self._lines: set[_Line] = set()
        self._servers: dict[str, asyncio.Server] = {}

    async def open(self, host: str, port: int, inner: Callable[[], asyncio.Protocol]) -> asyncio.Server:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: _Line(self, inner()), host, port, backlog=BACKLOG)
        self._servers[host] = server
        return server

    def shut(self, host: str) -> None:
        """No longer listens there, and breaks what was connected there."""
        if (server := self._servers.pop(host, None)) is not None:
            server.close()
        for line in list(self._lines):
            if line.host == host:
                line.break_off()

    def close(self) -> None:
        for host in list(self._servers):
            self.shut(host)
        for line in list(self._lines):
            line.break_off()

    def connect(self, connected: bool) -> None:
        """False: from now on nothing passes, and nobody is told. True: what was held back flows."""
        self.connected = connected
        for line in list(self._lines):
            line.follow()

    def add(self, line: "_Line") -> None:
        self._lines.add(line)

    def discard(self, line: "_Line") -> None:
        self._lines.discard(line)


class _Line(asyncio.Protocol):
    """One connection: passes everything on while the gate is open."""

    def __init__(self, gate: Gate, inner: asyncio.Protocol) -> None:
        self._gate = gate
        self._inner = inner
        self._held: list[bytes] = []
        self._ending: Callable[[], None] | None = None
        self.transport: asyncio.Transport
        self.host = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's are none by inheritance
        self.host = str((transport.get_extra_info("sockname") or ("",))[0])
        self._gate.add(self)
        self._inner.connection_made(_Held(self))
        self.follow()

    def data_received(self, data: bytes) -> None:
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._gate.discard(self)
        self._inner.connection_lost(exc)

    def follow(self) -> None:
        """Do as the gate does."""
        if not self._gate.connected:
            self.transport.pause_reading()
            return
        if not self.transport.is_closing():
            self.transport.resume_reading()
            self.transport.writelines(self._held)
        self._held.clear()
        if self._ending is not None:
            self._ending()

    def write(self, data: bytes) -> None:
        if self._gate.connected:
            self.transport.write(data)
        else:
            self._held.append(bytes(data))

    def end(self, how: Callable[[], None]) -> None:
        """Behind a cut cable nobody hears that a connection ends."""
        if self._gate.connected:
            how()
        else:
            self._ending = how

    @property
    def ending(self) -> bool:
        return self._ending is not None or self.transport.is_closing()

    def break_off(self) -> None:
        self.end(self.transport.abort)


class _Held(asyncio.Transport):
    """The transport as the server inside sees it."""

    def __init__(self, line: _Line) -> None:
        super().__init__()
        self._line = line

    def write(self, data: Any) -> None:
        self._line.write(data)

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self._line.write(b"".join(list_of_data))

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._line.transport.get_extra_info(name, default)

    def is_closing(self) -> bool:
        return self._line.ending

    def close(self) -> None:
        self._line.end(self._line.transport.close)

    def abort(self) -> None:
        self._line.end(self._line.transport.abort)

    def pause_reading(self) -> None:
        self._line.transport.pause_reading()

    def resume_reading(self) -> None:
        self._line.follow()

    def is_reading(self) -> bool:
        return self._line.transport.is_reading()

    def can_write_eof(self) -> bool:
        return self._line.transport.can_write_eof()

    def write_eof(self) -> None:
        self._line.end(self._line.transport.write_eof)

    def get_write_buffer_size(self) -> int:
        return self._line.transport.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._line.transport.set_write_buffer_limits(high, low)
