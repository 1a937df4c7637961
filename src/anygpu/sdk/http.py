"""HTTP to one server: a kept connection, errors as they were raised there, retries where they are safe."""

import contextlib
import http.client
import json
import random
import select
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlencode, urlsplit

from anygpu.errors import AnygpuError, ServerUnreachable
from anygpu.sdk.problems import error_from

TRIES = 5
FIRST_DELAY_S = 0.1
LONGEST_DELAY_S = 2.0
_BROKEN = (OSError, http.client.HTTPException)
_SAFE_TO_REPEAT = {"GET", "HEAD", "PUT", "DELETE"}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the server is, and who we are to it."""

    url: str
    token: str


class Locate(Protocol):
    """Says where the server is now; asked again after a broken connection, for it may have moved."""

    def __call__(self) -> Endpoint: ...


@dataclass(frozen=True, slots=True)
class Answer:
    """Headers by their names in lower case."""

    status: int
    headers: Mapping[str, str]
    data: bytes

    def json(self) -> Any:
        return json.loads(self.data) if self.data else None


class Http:
    """One kept connection. Not shared between threads: each thread makes its own."""

    def __init__(self, locate: Locate, *, timeout_s: float = 30, tries: int = TRIES) -> None:
        self._locate = locate
        self._timeout_s = timeout_s
        self._tries = tries
        self._endpoint: Endpoint | None = None
        self._connection: http.client.HTTPConnection | None = None
        self._socket: socket.socket | None = None

    def another(self) -> "Http":
        """A second connection to the same server, for another thread or beside an open stream."""
        return Http(self._locate, timeout_s=self._timeout_s, tries=self._tries)

    @property
    def endpoint(self) -> Endpoint:
        if self._endpoint is None:
            self._endpoint = self._locate()
        return self._endpoint

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        repeatable: bool | None = None,
    ) -> Answer:
        """One answer, after retries if the call may be repeated. Raises the error the server named."""
        # Where there is no server, looking again a moment later finds none either.
        self._endpoint = self.endpoint
        safe = method in _SAFE_TO_REPEAT if repeatable is None else repeatable
        return self._with_retries(lambda: self._once(method, path, query, body, headers), safe)

    def open(self, path: str, query: Mapping[str, Any], *, silence_s: float) -> http.client.HTTPResponse:
        """An answer still to be read, on this connection. `silence_s` without a byte breaks it."""
        response = self._send("GET", path, query, None, None)
        if self._socket is not None:
            self._socket.settimeout(silence_s)
        if response.status >= 400:
            raise error_from(response.status, response.headers.get("Content-Type", ""), response.read())
        return response

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def abort(self) -> None:
        """End what is being read, from any thread."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def forget(self) -> None:
        """Close, and ask again where the server is."""
        self.close()
        self._endpoint = None

    def _with_retries(self, call: Callable[[], Answer], safe: bool) -> Answer:
        for turn in range(self._tries - 1):
            try:
                return call()
            except AnygpuError as error:
                if not error.retryable or not safe:
                    raise
            time.sleep(backoff_s(turn))
            self.forget()
        return call()

    def _once(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None,
        body: Any,
        headers: Mapping[str, str] | None,
    ) -> Answer:
        response = self._send(method, path, query, body, headers)
        try:
            data = response.read()
        except _BROKEN as error:
            raise self._unreachable(error) from error
        if response.status >= 400:
            raise error_from(response.status, response.headers.get("Content-Type", ""), data)
        return Answer(
            response.status, {name.lower(): value for name, value in response.headers.items()}, data
        )

    def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None,
        body: Any,
        headers: Mapping[str, str] | None,
    ) -> http.client.HTTPResponse:
        payload, kind = _encoded(body)
        try:
            connection = self._connected()
            connection.request(method, _target(path, query), payload, self._headers(kind, headers))
            self._socket = connection.sock  # the connection lets go of it when the server will close
            return connection.getresponse()
        except _BROKEN as error:
            raise self._unreachable(error) from error

    def _connected(self) -> http.client.HTTPConnection:
        if self._connection is not None and _gone(self._connection):
            self.close()
        if self._connection is None:
            self._connection = _connection(self.endpoint.url, self._timeout_s)
        if self._connection.sock is not None:
            self._connection.sock.settimeout(self._timeout_s)
        return self._connection

    def _headers(self, kind: str | None, more: Mapping[str, str] | None) -> dict[str, str]:
        headers = {"Authorization": f"Bearer {self.endpoint.token}", "Accept": "*/*"}
        if kind is not None:
            headers["Content-Type"] = kind
        return {**headers, **(more or {})}

    def _unreachable(self, error: Exception) -> ServerUnreachable:
        self.close()
        said = str(error) or type(error).__name__
        return ServerUnreachable(
            f"The anygpu server at {self.endpoint.url} does not answer ({said}).",
            hint="Start it with `anygpu up`, or check the address and the network.",
        )


def backoff_s(turn: int) -> float:
    """What to wait after failed try number `turn`, jittered so that clients do not knock together."""
    longest_s: float = min(FIRST_DELAY_S * 2 ** min(turn, 16), LONGEST_DELAY_S)
    return longest_s * random.uniform(0.5, 1)  # noqa: S311 no secret


def _connection(url: str, timeout_s: float) -> http.client.HTTPConnection:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ServerUnreachable(
            f"{url!r} is not an address of a server.", hint="Write it as https://host[:port]."
        )
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    return kind(parts.hostname, parts.port, timeout=timeout_s)


def _gone(connection: http.client.HTTPConnection) -> bool:
    """Nothing is asked, so anything to read is the server's goodbye to a connection kept too long."""
    return connection.sock is not None and bool(select.select([connection.sock], [], [], 0)[0])


def _target(path: str, query: Mapping[str, Any] | None) -> str:
    given = {key: value for key, value in (query or {}).items() if value is not None}
    return f"{path}?{urlencode(given, doseq=True)}" if given else path


def _encoded(body: Any) -> tuple[Any, str | None]:
    if body is None:
        return None, None
    if hasattr(body, "seek"):
        body.seek(0)  # a repeated call sends the file from its beginning
    if isinstance(body, bytes) or hasattr(body, "read"):
        return body, "application/octet-stream"
    return json.dumps(body).encode(), "application/json"
