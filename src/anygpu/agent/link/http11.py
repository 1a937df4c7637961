"""A small HTTP/1.1 client.

Importing `http.client` would take longer than claiming an attempt and starting its job.
"""

from __future__ import annotations

import socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import IO, Protocol, Union

    Body = Union[bytes, "StreamBody"]

    class Connection(Protocol):
        """A way to send requests: an `HttpConnection`, or a connection through a relay."""

        def request(
            self, method: str, path: str, headers: dict[str, str], body: Body, timeout_s: float
        ) -> StreamedResponse: ...

        @property
        def url(self) -> str: ...

        def fail(self) -> None: ...

        def close(self) -> None: ...


BLOCK_BYTES = 262144
MAX_HEADERS = 200
# Seconds without data until the first check, seconds between checks, and how many may fail.
KEEPALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
UNAVAILABLE = (502, 503, 504)  # the server, or a proxy in front of it, cannot handle requests now


class Unreachable(Exception):
    """The server sent no complete response: connection refused, timeout, or connection lost. A retry may help."""


class StaleConnection(Unreachable):
    """The server closed a kept-alive connection before it sent any byte of the response.

    The request can be repeated immediately on a new connection.
    """


class StreamBody:
    """A request body that is sent in blocks. `blocks` returns them, and is called again if the request is repeated."""

    def __init__(self, size: int, blocks: Callable[[], Iterable[bytes]]) -> None:
        self.size = size
        self.blocks = blocks


class HttpUrl:
    """The parts of a URL. Parsed without urllib, to save its import time."""

    __slots__ = ("host", "port", "target", "tls")

    def __init__(self, url: str) -> None:
        scheme, separator, rest = url.partition("://")
        if not separator or scheme.lower() not in ("http", "https"):
            raise ValueError(
                f"{url.split('?')[0]!r} is not an address that can be downloaded. Give a URL that begins with "
                "http:// or https://"
            )
        netloc, slash, target = rest.partition("/")
        self.tls = scheme.lower() == "https"
        self.target = slash + target.partition("#")[0]
        self.host, self.port = _split_host_port(netloc.rpartition("@")[2], 443 if self.tls else 80)


def _split_host_port(netloc: str, default: int) -> tuple[str, int]:
    if netloc.startswith("["):
        host, _, rest = netloc[1:].partition("]")
        return host, int(rest[1:]) if rest.startswith(":") else default
    host, _, port = netloc.partition(":")
    return host, int(port) if port else default


class StreamedResponse:
    """Status and headers of a response; header names are in lower case. The body is read on demand."""

    def __init__(self, status: int, headers: dict[str, str], file: IO[bytes]) -> None:
        self.status = status
        self.headers = headers
        self._file = file

    def blocks(self) -> Iterator[bytes]:
        try:
            yield from self._read_blocks()
        except OSError as error:
            raise Unreachable(
                f"the connection was lost in the middle of a response: {error}. Check the network of this machine"
            ) from error

    def body(self) -> bytes:
        return b"".join(self.blocks())

    def _read_blocks(self) -> Iterator[bytes]:
        if self.status in (204, 304):
            return
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            yield from self._read_chunks()
        elif "content-length" in self.headers:
            yield from self._read_exactly(int(self.headers["content-length"]))
        else:
            yield from iter(lambda: self._file.read(BLOCK_BYTES), b"")

    def _read_exactly(self, size: int) -> Iterator[bytes]:
        while size:
            block = self._file.read(min(size, BLOCK_BYTES))
            if not block:
                raise Unreachable(
                    f"the connection was lost {size} bytes before the end of the response. Check the network of this "
                    "machine"
                )
            size -= len(block)
            yield block

    def _read_chunks(self) -> Iterator[bytes]:
        while True:
            line = self._file.readline(1024)
            if not line.endswith(b"\n"):
                raise Unreachable(
                    "the connection was lost in the middle of a response (between two chunks). Check the network of "
                    "this machine"
                )
            size = int(line.split(b";")[0], 16)
            yield from self._read_exactly(size)
            self._file.readline(1024)
            if size == 0:
                return


class HttpConnection:
    """A kept-alive connection to one host. Not thread-safe.

    `get_url` is called whenever a socket is opened, because a new tunnel has a new port. `on_open` is called
    with each new socket and its URL, `on_failure` with the URL of a server that cannot be used now. `prefix` is
    appended to the URL, before the path of a request.
    """

    def __init__(
        self,
        get_url: Callable[[], str],
        on_open: Callable[[socket.socket, str], None] | None = None,
        on_failure: Callable[[str], None] = lambda url: None,
        prefix: str = "",
    ) -> None:
        self._get_url = get_url
        self._on_open = on_open
        self._on_failure = on_failure
        self._prefix = prefix
        self.url = ""  # of the newest connection
        self._is_unavailable = False
        self._address: HttpUrl | None = None
        self._socket: socket.socket | None = None
        self._file: IO[bytes] | None = None

    def request(
        self, method: str, path: str, headers: dict[str, str], body: Body, timeout_s: float
    ) -> StreamedResponse:
        """Send a request and return the response. `path` is appended to the URL."""
        try:
            response = self._request(method, self._prefix + path, headers, body, timeout_s)
        except Unreachable:
            self.fail()
            raise
        self._is_unavailable = response.status in UNAVAILABLE
        return response

    def _request(
        self, method: str, path: str, headers: dict[str, str], body: Body, timeout_s: float
    ) -> StreamedResponse:
        if self._socket is not None:
            try:
                return self._exchange(method, path, headers, body, timeout_s)
            except StaleConnection:
                self.close()
        self._open(timeout_s)
        return self._exchange(method, path, headers, body, timeout_s)

    def close(self) -> None:
        for held in (self._file, self._socket):
            if held is not None:
                held.close()
        self._socket = self._file = None
        if self._is_unavailable:
            self._is_unavailable = False
            self._on_failure(self.url)

    def fail(self) -> None:
        """Close the connection, and report that its server cannot be used now."""
        self._is_unavailable = True
        self.close()

    def _open(self, timeout_s: float) -> None:
        self.url = self._get_url()
        address = self._address = HttpUrl(self.url)
        target = (address.host, address.port)
        try:
            made = socket.create_connection(target, timeout=min(timeout_s, 10.0))
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _keep_alive(made)
            if address.tls:
                made = _wrap_tls(made, address.host)
        except OSError as error:
            raise Unreachable(
                f"{target[0]}:{target[1]} cannot be reached: {error}. Check the address, and the network of this "
                "machine"
            ) from error
        self._socket, self._file = made, made.makefile("rb")
        if self._on_open is not None:
            self._on_open(made, self.url)

    def _exchange(
        self, method: str, path: str, headers: dict[str, str], body: Body, timeout_s: float
    ) -> StreamedResponse:
        assert self._socket is not None
        assert self._address is not None
        try:
            self._socket.settimeout(timeout_s)
            self._send(method, self._address.target + path, headers, body)
            return self._read_response(method)
        except (ConnectionError, BrokenPipeError) as error:
            self.close()
            raise StaleConnection(f"{self._host_header()} closed the connection: {error}") from error
        except OSError as error:
            self.close()
            raise Unreachable(
                f"{self._host_header()} sent no response: {error}. Check that it runs, and the network of this "
                "machine"
            ) from error
        except Unreachable:
            self.close()
            raise

    def _send(self, method: str, target: str, headers: dict[str, str], body: Body) -> None:
        assert self._socket is not None
        size = len(body) if isinstance(body, bytes) else body.size
        lines = [
            f"{method} {target or '/'} HTTP/1.1",
            f"Host: {self._host_header()}",
            f"Content-Length: {size}",
        ]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        head = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
        if isinstance(body, bytes):
            self._socket.sendall(head + body)
            return
        self._socket.sendall(head)
        for block in body.blocks():
            self._socket.sendall(block)

    def _host_header(self) -> str:
        address = self._address
        assert address is not None
        host = f"[{address.host}]" if ":" in address.host else address.host
        default_port = 443 if address.tls else 80
        return host if address.port == default_port else f"{host}:{address.port}"

    def _read_response(self, method: str) -> StreamedResponse:
        assert self._file is not None
        line = self._file.readline(8192)
        if not line:
            raise StaleConnection("the other side closed the connection without a response")
        parts = line.split(None, 2)
        if len(parts) < 2 or not parts[0].startswith(b"HTTP/1.") or not parts[1].isdigit():
            raise Unreachable(
                "the response is not HTTP/1.1. Check that the address is that of an HTTP server, and no proxy "
                "changes the response"
            )
        headers = self._read_headers()
        if parts[1] == b"100":
            return self._read_response(method)
        response = StreamedResponse(int(parts[1]), headers, self._file)
        return response

    def _read_headers(self) -> dict[str, str]:
        assert self._file is not None
        headers: dict[str, str] = {}
        for _ in range(MAX_HEADERS):
            line = self._file.readline(65536)
            if line in (b"\r\n", b"\n"):
                return headers
            if not line.endswith(b"\n"):
                raise Unreachable(
                    "the connection was lost in the headers of a response. Check the network of this machine"
                )
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.strip().lower()] = value.strip()
        raise Unreachable("the response has too many headers. Check that no proxy adds headers to it")


def _keep_alive(made: socket.socket) -> None:
    """Let the system check an idle connection, so that no router drops it unnoticed during a long request."""
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEPALIVE.items():
        if hasattr(socket, name):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _wrap_tls(plain: socket.socket, host: str) -> socket.socket:
    import ssl

    return ssl.create_default_context().wrap_socket(plain, server_hostname=host)
