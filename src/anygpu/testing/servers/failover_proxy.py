"""A TCP proxy with a fixed address whose target can be changed, like a load balancer in front of servers."""

import contextlib
import socket
import threading
from types import TracebackType
from urllib.parse import urlsplit


class FailoverProxy:
    """A proxy that forwards connections to the current server.

    `connect` selects another server and closes the connections to the old server.
    """

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self._target: tuple[str, int] | None = None
        self._open: list[socket.socket] = []

    @property
    def url(self) -> str:
        host, port = self._listener.getsockname()
        return f"http://{host}:{port}"

    def connect(self, url: str) -> None:
        parts = urlsplit(url)
        self._target = (parts.hostname or "", parts.port or 80)
        self._cut()

    def __enter__(self) -> "FailoverProxy":
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.close()
        self._cut()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(self._target or ("127.0.0.1", 9), timeout=5)
        except OSError:
            client.close()
            return
        server.settimeout(None)
        self._open += [client, server]
        threading.Thread(target=_pass_on, args=(client, server), daemon=True).start()
        _pass_on(server, client)

    def _cut(self) -> None:
        cut, self._open = self._open, []
        for each in cut:
            _end(each)


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    _end(source)
    _end(target)


def _end(each: socket.socket) -> None:
    with contextlib.suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
    each.close()
