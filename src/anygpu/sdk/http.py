"""Send HTTP requests to one server: reuse connections, retry, and raise the errors that the server reports."""

import contextlib
import http.client
import json
import random
import select
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable
from urllib.parse import urlencode, urlsplit

from anygpu import errors
from anygpu.errors import AnygpuError, InvalidSpec, Problem, ServerUnreachable, describe_error

_BY_STATUS = {
    400: errors.InvalidSpec,
    401: errors.Unauthorized,
    403: errors.Forbidden,
    404: errors.NotFound,
    409: errors.Conflict,
    413: errors.TooLarge,
    422: errors.InvalidSpec,
    429: errors.RateLimited,
    # A proxy in front of the server answers so while the server does not run. The server's own errors have codes.
    502: errors.ServerUnreachable,
    503: errors.ServerUnreachable,
    504: errors.ServerUnreachable,
    507: errors.StorageFull,
}
_STANDARD_KEYS = {"type", "title", "status", "code", "detail", "hint", "retryable", "problems"}


def error_from_response(status: int, content_type: str, body: bytes) -> AnygpuError:
    """Return the error that an HTTP response describes: by its error code, else by its HTTP status."""
    return error_from_problem(status, _problem_document(content_type, body))


def error_from_problem(status: int, document: Mapping[str, Any]) -> AnygpuError:
    """Return the error that a problem document describes: by its error code, else by the HTTP status."""
    code = document.get("code")
    kind = next((kind for kind in errors.every_error() if kind.code == code), None)
    if kind is None:
        kind = _BY_STATUS.get(status, errors.Internal)
    if issubclass(kind, InvalidSpec) and document.get("problems"):
        return kind([_problem(item) for item in document["problems"]])
    return _build_error(kind, status, document)


def _build_error(kind: type[AnygpuError], status: int, document: Mapping[str, Any]) -> AnygpuError:
    detail = str(document.get("detail") or document.get("title") or "")
    more = {key: value for key, value in document.items() if key not in _STANDARD_KEYS}
    if issubclass(kind, InvalidSpec):
        return kind(
            [
                Problem(
                    place="",
                    value=None,
                    message=detail or f"the server rejected the request with HTTP status {status}",
                )
            ]
        )
    if not detail:
        return kind(**more)
    return kind(detail, hint=str(document.get("hint") or ""), **more)


def _problem(item: Mapping[str, Any]) -> Problem:
    # The caller of the SDK sees neither the HTTP body nor the URL path.
    return Problem(
        place=str(item.get("place", "")).removeprefix("path."),
        value=item.get("value"),
        message=str(item.get("message", "")),
        suggestion=str(item.get("suggestion") or ""),
        source=str(item.get("source") or "").removeprefix("body"),
        line=item.get("line"),
    )


def _problem_document(content_type: str, body: bytes) -> dict[str, Any]:
    if "json" not in content_type:
        return {}
    try:
        parsed = json.loads(body)
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) else {}


TRIES = 5
FIRST_DELAY_S = 0.1
MAX_DELAY_S = 2.0
FAILOVER_CONNECT_S = 3.0  # if another server can be asked, this one must accept a connection sooner
_CONNECTION_ERRORS = (OSError, http.client.HTTPException)
_IDEMPOTENT_METHODS = {"GET", "HEAD", "PUT", "DELETE"}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The URL of a server and the token to use."""

    url: str
    token: str


class EndpointLocator(Protocol):
    """A function that returns the current URL and token of the server.

    The function is called again after a broken connection, because a restarted server may have another port.
    """

    def __call__(self) -> Endpoint: ...


@runtime_checkable
class SupportsFailover(Protocol):
    """A locator of several servers: it can use another one if the current one fails."""

    @property
    def has_others(self) -> bool: ...

    def skip(self, failed: Endpoint) -> None: ...


@dataclass(frozen=True, slots=True)
class ApiResponse:
    """An HTTP response. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    data: bytes

    def json(self) -> Any:
        return json.loads(self.data) if self.data else None


class ServerConnection:
    """An HTTP connection that is reused. Not thread-safe: each thread needs its own."""

    def __init__(self, locate: EndpointLocator, *, timeout_s: float = 30, tries: int = TRIES) -> None:
        self._locate = locate
        self._timeout_s = timeout_s
        self._tries = tries
        self._endpoint: Endpoint | None = None
        self._connection: http.client.HTTPConnection | None = None
        self._socket: socket.socket | None = None
        self._is_connected = False  # whether the newest request may have reached a server

    def another(self) -> "ServerConnection":
        """Return a second connection to the same server, for another thread or while a stream is open."""
        return ServerConnection(self._locate, timeout_s=self._timeout_s, tries=self._tries)

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
    ) -> ApiResponse:
        """Send a request and return the response. Raise the error that the server reports.

        A failed request is retried if it may be repeated: `repeatable`, by default True for idempotent
        methods.
        """
        # Locate the server outside the retries: if no server is running, a retry does not help.
        self._endpoint = self.endpoint
        safe = method in _IDEMPOTENT_METHODS if repeatable is None else repeatable
        return self._with_retries(lambda: self._request_once(method, path, query, body, headers), safe)

    def open(self, path: str, query: Mapping[str, Any], *, silence_s: float) -> http.client.HTTPResponse:
        """Open a streaming response. Reading fails after `silence_s` seconds without data."""
        response = self._send("GET", path, query, None, None)
        if self._socket is not None:
            self._socket.settimeout(silence_s)
        if response.status >= 400:
            raise error_from_response(
                response.status, response.headers.get("Content-Type", ""), response.read()
            )
        return response

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def abort(self) -> None:
        """Interrupt a read in progress. May be called from any thread."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def reset(self) -> None:
        """Close the connection. The next request locates the server again, and uses another one if there is one."""
        self.close()
        if self._endpoint is not None and isinstance(self._locate, SupportsFailover):
            self._locate.skip(self._endpoint)
        self._endpoint = None

    def _with_retries(self, call: Callable[[], ApiResponse], safe: bool) -> ApiResponse:
        for turn in range(self._tries - 1):
            try:
                return call()
            except AnygpuError as error:
                if not error.retryable or not (safe or self._can_ask_another()):
                    raise
            time.sleep(backoff_s(turn))
            self.reset()
        return call()

    def _can_ask_another(self) -> bool:
        """Return whether a request that must not be repeated can go to another server: it has reached none."""
        return self._has_others() and not self._is_connected

    def _has_others(self) -> bool:
        return isinstance(self._locate, SupportsFailover) and self._locate.has_others

    def _request_once(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None,
        body: Any,
        headers: Mapping[str, str] | None,
    ) -> ApiResponse:
        response = self._send(method, path, query, body, headers)
        try:
            data = response.read()
        except _CONNECTION_ERRORS as error:
            raise self._unreachable(error) from error
        if response.status >= 400:
            raise error_from_response(response.status, response.headers.get("Content-Type", ""), data)
        return ApiResponse(
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
        payload, kind = _encode_body(body)
        self._is_connected = False
        try:
            connection = self._open_connection()
            connection.request(method, _request_target(path, query), payload, self._headers(kind, headers))
            self._socket = connection.sock  # kept: http.client drops the socket after `Connection: close`
            return connection.getresponse()
        except _CONNECTION_ERRORS as error:
            raise self._unreachable(error) from error

    def _open_connection(self) -> http.client.HTTPConnection:
        if self._connection is not None and _is_closed_by_server(self._connection):
            self.close()
        if self._connection is None:
            limit_s = min(self._timeout_s, FAILOVER_CONNECT_S) if self._has_others() else self._timeout_s
            self._connection = _new_connection(self.endpoint.url, limit_s)
            self._connection.connect()
        self._is_connected = True
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
        return ServerUnreachable(
            f"The anygpu server at {self.endpoint.url} does not answer ({describe_error(error)}).",
            hint="Start it with `anygpu up`, or check the address and the network.",
        )


def backoff_s(turn: int) -> float:
    """Return how many seconds to wait after failed try number `turn`.

    The delay is random, so that clients do not all retry at the same time.
    """
    longest_s: float = min(FIRST_DELAY_S * 2 ** min(turn, 16), MAX_DELAY_S)
    return longest_s * random.uniform(0.5, 1)  # noqa: S311 no secret


def _new_connection(url: str, timeout_s: float) -> http.client.HTTPConnection:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ServerUnreachable(
            f"{url!r} is not the address of an anygpu server.",
            hint="Write it as https://host or https://host:port.",
        )
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    return kind(parts.hostname, parts.port, timeout=timeout_s)


def _is_closed_by_server(connection: http.client.HTTPConnection) -> bool:
    """Return whether the server has closed an idle connection.

    No response is expected on an idle connection, so a readable socket means that it was closed.
    """
    return connection.sock is not None and bool(select.select([connection.sock], [], [], 0)[0])


def _request_target(path: str, query: Mapping[str, Any] | None) -> str:
    given = {key: value for key, value in (query or {}).items() if value is not None}
    return f"{path}?{urlencode(given, doseq=True)}" if given else path


def _encode_body(body: Any) -> tuple[Any, str | None]:
    if body is None:
        return None, None
    if hasattr(body, "seek"):
        body.seek(0)  # a retry sends the file from its start
    if isinstance(body, bytes) or hasattr(body, "read"):
        return body, "application/octet-stream"
    return json.dumps(body).encode(), "application/json"
