"""Limits for connections, before any request is parsed: headers, slow clients, and the number of connections.

Anyone who can reach a listener can open connections, so each of these limits works without authentication. A
listener closes the connections whose client is too slow, and at its maximum number of connections it closes the
one that has waited longest for its client.
"""

import json
from collections import OrderedDict
from dataclasses import dataclass
from enum import Enum
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from anygpu.errors import AnygpuError
from anygpu.server.http.errors import MEDIA_TYPE, MalformedRequest, problem_body, status_of

KEEP_ALIVE_S = 75.0


class HeaderTooLarge(AnygpuError):
    """The headers of the request are too large. Send fewer or shorter headers."""

    code = "header_too_large"


class RequestTimeout(AnygpuError):
    """The request did not arrive in time. Send it again."""

    code = "request_timeout"
    retryable = True


class TooManyConnections(AnygpuError):
    """The server has too many open connections. Try again later."""

    code = "too_many_connections"
    retryable = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """The time limits and the maximum number of connections of one listener.

    `header_s` is the time for the complete headers. `silence_s` is the longest pause while a body is transferred.
    """

    connections: int
    header_bytes: int
    header_count: int
    header_s: float
    silence_s: float


class ConnectionPhase(Enum):
    """What a connection waits for at the moment."""

    HEADERS = "headers"
    BODY = "body"
    RESPONSE = "response"  # the server's
    REST = "rest"  # of a body, after the response
    REQUEST = "request"  # the next one


class ConnectionTable:
    """The open HTTP connections of one listener.

    Connections that wait for their client are ordered by how long they have waited.
    """

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._all: set[LimitedProtocol] = set()
        self._waiting: OrderedDict[LimitedProtocol, None] = OrderedDict()

    def add(self, connection: "LimitedProtocol", count: int) -> None:
        """Add a connection; there are `count` now. If that is too many, close another one or the new one."""
        self._all.add(connection)
        oldest = next((each for each in self._waiting if each is not connection), None)
        if count <= self.limits.connections:
            return
        if oldest is None:
            connection.refuse(TooManyConnections())
            return
        self.set_waiting(oldest, waits=False)
        oldest.transport.abort()

    def remove(self, connection: "LimitedProtocol") -> None:
        self._all.discard(connection)
        self._waiting.pop(connection, None)

    def set_waiting(self, connection: "LimitedProtocol", *, waits: bool) -> None:
        self._waiting.pop(connection, None)
        if waits:
            self._waiting[connection] = None

    def close_slow_clients(self, now: float) -> None:
        for connection in [*self._all]:
            connection.close_if_slow(now)


class LimitedProtocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol with the limits of a `ConnectionTable`."""

    def __init__(self, table: ConnectionTable, **options: Any) -> None:
        super().__init__(**options)
        self._table = table
        self._phase = ConnectionPhase.HEADERS
        self._since = self.loop.time()
        self._in_headers = False
        self._header_bytes = 0
        self._unparsed_bytes = 0  # received since the parser last completed something
        self._refusal: AnygpuError = MalformedRequest("the request is not valid HTTP")
        self._unsent_bytes = 0
        self._unsent_since = 0.0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._enter(ConnectionPhase.HEADERS)
        self._table.add(self, len(self.connections))

    def connection_lost(self, exc: Exception | None) -> None:
        self._table.remove(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        if self._phase is ConnectionPhase.REQUEST:
            self._enter(ConnectionPhase.HEADERS)
        elif self._phase is ConnectionPhase.BODY:
            self._enter(ConnectionPhase.BODY)
        self._unparsed_bytes += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            if self._should_upgrade():
                self.handle_websocket_upgrade()
        except httptools.HttpParserError:
            self.refuse(self._refusal)
            return
        if self._unparsed_bytes > self._table.limits.header_bytes:
            self.refuse(HeaderTooLarge())

    def handle_websocket_upgrade(self) -> None:
        self._unparsed_bytes = 0
        self._table.remove(self)
        super().handle_websocket_upgrade()

    def on_message_begin(self) -> None:
        self._in_headers = True
        self._header_bytes = self._unparsed_bytes = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._count_header(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count_header(len(name) + len(value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_headers, self._unparsed_bytes = False, 0
        super().on_headers_complete()
        self._enter(ConnectionPhase.BODY)

    def on_body(self, body: bytes) -> None:
        self._unparsed_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._unparsed_bytes = 0
        super().on_message_complete()
        self._enter(ConnectionPhase.REQUEST if self._has_answered() else ConnectionPhase.RESPONSE)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._in_headers:
            self._enter(ConnectionPhase.HEADERS)
        elif self._has_answered():
            self._enter(ConnectionPhase.REST if self.cycle.more_body else ConnectionPhase.REQUEST)

    def refuse(self, error: AnygpuError) -> None:
        """Answer with an error, unless a response has begun, and close the connection."""
        if self.cycle is None or not self.cycle.response_started or self.cycle.response_complete:
            self.transport.write(_problem_bytes(error))
        self.transport.close()

    def close_if_slow(self, now: float) -> None:
        """Close the connection if its client is too slow to send its request or to read the response."""
        if self._stopped_reading(now):
            self.transport.abort()
        elif not self.transport.is_closing() and now - self._since > self._longest_wait_s():
            if self._phase in (ConnectionPhase.HEADERS, ConnectionPhase.BODY):
                self.refuse(RequestTimeout())
            else:
                self.transport.close()

    def _stopped_reading(self, now: float) -> bool:
        size = self.transport.get_write_buffer_size()
        if not size or size != self._unsent_bytes:
            self._unsent_bytes, self._unsent_since = size, now
            return False
        return now - self._unsent_since > self._table.limits.silence_s

    def _longest_wait_s(self) -> float:
        limits = self._table.limits
        longest = {
            ConnectionPhase.HEADERS: limits.header_s,
            ConnectionPhase.BODY: limits.silence_s,
            ConnectionPhase.REST: limits.header_s,
            ConnectionPhase.REQUEST: KEEP_ALIVE_S,
            ConnectionPhase.RESPONSE: float("inf"),
        }
        return longest[self._phase]

    def _has_answered(self) -> bool:
        return self.cycle is not None and self.cycle.response_complete

    def _enter(self, phase: ConnectionPhase) -> None:
        self._phase, self._since = phase, self.loop.time()
        self._table.set_waiting(self, waits=phase is not ConnectionPhase.RESPONSE)

    def _count_header(self, size: int) -> None:
        self._header_bytes += size
        limits = self._table.limits
        if self._header_bytes > limits.header_bytes or len(self.headers) >= limits.header_count:
            self._refusal = HeaderTooLarge()
            raise self._refusal  # the parser raises HttpParserError


def _problem_bytes(error: AnygpuError) -> bytes:
    body = json.dumps(problem_body(error)).encode()
    head = f"content-type: {MEDIA_TYPE}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
    return STATUS_LINE[status_of(error)] + head.encode() + body
