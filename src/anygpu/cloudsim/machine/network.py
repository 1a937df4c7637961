"""A machine's loopback addresses and TCP connections. The network can be cut and restored."""

import asyncio
import random
import socket
from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

BACKLOG = 128


class MachineNetwork:
    """All listeners and connections of one machine."""

    def __init__(self) -> None:
        self.connected = True
        self._connections: set[_Connection] = set()
        self._servers: dict[str, asyncio.Server] = {}

    async def listen(self, host: str, port: int, inner: Callable[[], asyncio.Protocol]) -> asyncio.Server:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: _Connection(self, inner()), host, port, backlog=BACKLOG)
        self._servers[host] = server
        return server

    def stop_listening(self, host: str) -> None:
        """Stop listening on an address and abort its connections."""
        if (server := self._servers.pop(host, None)) is not None:
            server.close()
        for line in list(self._connections):
            if line.host == host:
                line.abort()

    def close(self) -> None:
        for host in list(self._servers):
            self.stop_listening(host)
        for line in list(self._connections):
            line.abort()

    def set_connected(self, connected: bool) -> None:
        """Cut or restore the network.

        While the network is cut, all data is buffered and no connection is closed. When the network is
        restored, the buffered data is sent.
        """
        self.connected = connected
        for line in list(self._connections):
            line.apply_state()

    def add(self, line: "_Connection") -> None:
        self._connections.add(line)

    def discard(self, line: "_Connection") -> None:
        self._connections.discard(line)


class _Connection(asyncio.Protocol):
    """A connection that buffers its data while the network is cut."""

    def __init__(self, gate: MachineNetwork, inner: asyncio.Protocol) -> None:
        self._network = gate
        self._inner = inner
        self._buffered: list[bytes] = []
        self._pending_close: Callable[[], None] | None = None
        self.transport: asyncio.Transport
        self.host = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(
            "asyncio.Transport", transport
        )  # uvloop's transports do not inherit from asyncio's
        self.host = str((transport.get_extra_info("sockname") or ("",))[0])
        self._network.add(self)
        self._inner.connection_made(_BufferingTransport(self))
        self.apply_state()

    def data_received(self, data: bytes) -> None:
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._network.discard(self)
        self._inner.connection_lost(exc)

    def apply_state(self) -> None:
        """Pause the connection if the network is cut; otherwise resume it and send the buffered data."""
        if not self._network.connected:
            self.transport.pause_reading()
            return
        if not self.transport.is_closing():
            self.transport.resume_reading()
            self.transport.writelines(self._buffered)
        self._buffered.clear()
        if self._pending_close is not None:
            self._pending_close()

    def write(self, data: bytes) -> None:
        if self._network.connected:
            self.transport.write(data)
        else:
            self._buffered.append(bytes(data))

    def close_with(self, how: Callable[[], None]) -> None:
        """Close the connection with the function `how`. While the network is cut, wait until it is restored."""
        if self._network.connected:
            how()
        else:
            self._pending_close = how

    @property
    def is_closing(self) -> bool:
        return self._pending_close is not None or self.transport.is_closing()

    def abort(self) -> None:
        self.close_with(self.transport.abort)


class _BufferingTransport(asyncio.Transport):
    """The transport that the machine's server writes to. Data is buffered while the network is cut."""

    def __init__(self, line: _Connection) -> None:
        super().__init__()
        self._connection = line

    def write(self, data: Any) -> None:
        self._connection.write(data)

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self._connection.write(b"".join(list_of_data))

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._connection.transport.get_extra_info(name, default)

    def is_closing(self) -> bool:
        return self._connection.is_closing

    def close(self) -> None:
        self._connection.close_with(self._connection.transport.close)

    def abort(self) -> None:
        self._connection.close_with(self._connection.transport.abort)

    def pause_reading(self) -> None:
        self._connection.transport.pause_reading()

    def resume_reading(self) -> None:
        self._connection.apply_state()

    def is_reading(self) -> bool:
        return self._connection.transport.is_reading()

    def can_write_eof(self) -> bool:
        return self._connection.transport.can_write_eof()

    def write_eof(self) -> None:
        self._connection.close_with(self._connection.transport.write_eof)

    def get_write_buffer_size(self) -> int:
        return self._connection.transport.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._connection.transport.set_write_buffer_limits(high, low)


CLAIM_PORT = 1337  # a block is claimed by binding this port at its first address
PREFIX = "127.77"


class AddressPool:
    """Loopback addresses for machines, which this simulator reserves in blocks of 254.

    A block belongs to one simulator, so no two machines have the same address, even if several simulators run
    on this computer.
    """

    def __init__(self) -> None:
        self._claims: list[socket.socket] = []
        self._free: Iterator[str] = iter(())

    def take(self) -> str:
        for address in self._free:
            return address
        block = self._claim()
        self._free = (f"{PREFIX}.{block}.{host}" for host in range(1, 255))
        return next(self._free)

    def close(self) -> None:
        for claim in self._claims:
            claim.close()
        self._claims.clear()
        self._free = iter(())

    def _claim(self) -> int:
        for block in random.SystemRandom().sample(range(256), 256):
            claim = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            try:
                claim.bind((f"{PREFIX}.{block}.0", CLAIM_PORT))
            except OSError:
                claim.close()
                continue
            self._claims.append(claim)
            return block
        raise OSError(
            f"All loopback addresses of {PREFIX}.0.0/16 are in use by simulated clouds. Stop a running "
            "`anygpu cloud-sim`."
        )
