"""HTTP over a plain socket, for requests that no HTTP client sends."""

import socket
from collections.abc import Mapping
from urllib.parse import urlsplit


def connect(url: str, timeout_s: float = 30) -> socket.socket:
    parts = urlsplit(url)
    return socket.create_connection((parts.hostname or "", parts.port or 80), timeout=timeout_s)


def request_bytes(method: str, path: str, headers: Mapping[str, str]) -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode("latin-1")


def read_until_closed(connection: socket.socket) -> bytes:
    """Return what the server sends until it closes the connection. Raise TimeoutError if it does not."""
    received = b""
    try:
        while data := connection.recv(65536):
            received += data
    except ConnectionResetError:
        pass  # the server closed the connection before it had read everything
    return received


def send_raw(url: str, data: bytes) -> bytes:
    """Send bytes, and return the start of the answer."""
    with connect(url) as connection:
        connection.sendall(data)
        return connection.recv(65536)
