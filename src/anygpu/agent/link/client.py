"""The client for the server's agent API: requests, error answers, retries, and the server's address."""

from __future__ import annotations

import json
import os
import socket
import threading
import time

from anygpu.agent.link.http11 import UNAVAILABLE, HttpConnection, Unreachable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Optional, TypeVar

    from anygpu.agent.link.http11 import Body, Connection, StreamedResponse

    T = TypeVar("T")
    Stamp = Optional[tuple[int, int]]


FILE_POLL_S = 0.05  # while a thread waits, so that the spool is sent as soon as there is a tunnel again
OUTDATED_POLL_S = 0.25
UNKNOWN_AGENT = (401, 403, 404)
CHECK_TIMEOUT_S = 4.0  # how long an agent waits for an answer when it checks whether a server is there


class RequestRefused(Exception):
    """The server answered with an error status."""

    def __init__(self, status: int, problem: dict[str, Any], retry_after_s: float = 0.0) -> None:
        self.status = status
        self.problem = problem
        code = problem.get("code")
        # Errors of an anygpu server have a text here. Other programs send none, or a number.
        self.code = code if isinstance(code, str) else ""
        self.retry_after_s = retry_after_s
        super().__init__(
            f"{status} {self.code or problem.get('title', '')} {problem.get('detail', '')}".strip()
        )

    @property
    def is_transient(self) -> bool:
        """Whether the same request may succeed later."""
        return self.status >= 500 or self.status in (408, 425, 429)

    @property
    def is_foreign(self) -> bool:
        """Whether the refusal is not from an anygpu server, but for example from a proxy."""
        return not self.code and not self.is_transient

    @property
    def is_unknown_agent(self) -> bool:
        """Whether an anygpu server does not know this agent: attempt unknown, or token invalid."""
        return self.status in UNKNOWN_AGENT and bool(self.code)

    @property
    def is_rejection(self) -> bool:
        """Whether the server no longer accepts this agent: attempt unknown, token invalid, or another agent owns it."""
        return self.is_unknown_agent or self.code == "superseded"


class ServerAddress:
    """The server's address for agents: a fixed URL.

    `TunnelAddress` is for an address that changes, `ServerList` for several servers. `is_remote`: the agent does not
    run on the server's machine.
    """

    is_remote = False

    def __init__(self, url: str, *, is_remote: bool = False) -> None:
        self._url = url.rstrip("/")
        self.is_remote = is_remote

    @property
    def has_others(self) -> bool:
        """Whether another server can be used if this one fails."""
        return False

    def url(self) -> str:
        """Return the URL for a new connection. Raise `Unreachable` while there is no URL."""
        return self._url

    def connect(self) -> Connection:
        """Return a connection to the server. It opens with its first request."""
        return HttpConnection(self.url, self.on_open, self.on_failure)

    def connect_to(self, url: str) -> Connection:
        """Return a connection to a signed URL, which may be on the server itself."""
        path = self.path_on_server(url)
        if path is None:
            return HttpConnection(lambda: url)
        return HttpConnection(self.url, self.on_open, self.on_failure, prefix=path)

    def on_open(self, connection: socket.socket, url: str) -> None:
        """Register a new connection, so that a changed address can close it. Does nothing for a fixed address."""

    def on_failure(self, url: str) -> None:
        """Handle that the server at `url` cannot be used now. Does nothing for a fixed address."""

    def on_success(self, url: str) -> None:
        """Handle that the server at `url` has accepted a request. Does nothing for a fixed address."""

    def is_rejected_by_all(self, url: str) -> bool:
        """Handle that the server at `url` does not know this agent. Return whether no other server may know it."""
        return True

    def update(self, urls: Any) -> None:
        """Handle the list of servers in an answer. Does nothing for a fixed address."""

    def path_on_server(self, url: str) -> str | None:
        """Return the path of a URL that is on the server; None for a URL elsewhere."""
        return url if url.startswith("/") else None

    def wait(self, seconds: float) -> None:
        """Wait before a retry. Return early when the address has changed."""
        time.sleep(seconds)


class ServerClient:
    """Sends JSON or bytes to the server's agent API and returns the JSON of the answer.

    Not thread-safe: each thread needs its own client.
    """

    def __init__(self, address: ServerAddress, token: str = "") -> None:
        self.address = address
        self._token = token
        self._connection = address.connect()

    def call(
        self, method: str, path: str, body: Body | dict[str, Any] = b"", timeout_s: float = 30.0
    ) -> dict[str, Any]:
        kind = "application/octet-stream"
        if isinstance(body, dict):
            body, kind = json.dumps(body).encode(), "application/json"
        headers = {"Content-Type": kind, "Accept": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        return self._parse_response(self._connection.request(method, path, headers, body, timeout_s))

    def close(self) -> None:
        self._connection.close()

    def open_connection(self, url: str) -> Connection:
        """Return a connection to a signed URL. A `url` that begins with / is on the server itself."""
        return self.address.connect_to(url)

    def _parse_response(self, response: StreamedResponse) -> dict[str, Any]:
        try:
            content = parse_body(response.body())
        except Unreachable:
            self._connection.fail()
            raise
        url = self._connection.url
        if response.headers.get("connection", "").lower() == "close" or response.status in UNAVAILABLE:
            self._connection.close()
        if response.status >= 300:
            raise self._refusal(response, content, url)
        self.address.on_success(url)
        return content

    def _refusal(self, response: StreamedResponse, content: dict[str, Any], url: str) -> Exception:
        retry_after_s = _retry_after_s(response.headers.get("retry-after", ""))
        if response.status in UNAVAILABLE and self.address.has_others:
            retry_after_s = 0.0  # the next request goes to another server
        refusal = RequestRefused(response.status, content, retry_after_s)
        if response.status in UNKNOWN_AGENT and not self.address.is_rejected_by_all(url):
            self._connection.fail()
            return Unreachable(f"the server at {url} does not know this agent ({refusal}); another is asked")
        if response.status in UNKNOWN_AGENT and refusal.is_foreign:
            self._connection.fail()  # the next request goes to another server, if there is one
            if response.status != 403:
                return Unreachable(
                    f"{url} answered {response.status}, but not as an anygpu server does. Check the address, and the "
                    "proxies between this machine and the server"
                )
        return refusal


def is_anygpu_server(address: ServerAddress) -> bool:
    """Return whether an anygpu server answers at the address. Sends it no secret."""
    server = ServerClient(address)
    try:
        server.call("GET", "/agent/v1/orders", timeout_s=CHECK_TIMEOUT_S)
    except Unreachable:
        return False
    except RequestRefused as refusal:
        return refusal.code == "unauthorized"  # the answer of an anygpu server to a request without a token
    finally:
        server.close()
    return False


def parse_body(body: bytes) -> dict[str, Any]:
    try:
        content = json.loads(body) if body else {}
    except ValueError:
        content = {"detail": body[:200].decode("utf-8", "replace")}
    return content if isinstance(content, dict) else {"value": content}


def _retry_after_s(header: str) -> float:
    return min(float(header), 30.0) if header.isdigit() else 0.0


class Backoff:
    """The waiting times between retries.

    Each is about twice the one before. They are random, so that agents do not all retry at the same moment.
    """

    def __init__(self, first_s: float = 0.1, max_s: float = 5.0) -> None:
        self._first_s, self._max_s, self._next_s = first_s, max_s, first_s

    def next_s(self, at_least_s: float = 0.0) -> float:
        jitter = os.urandom(1)[0] / 255
        wait_s = self._next_s * (0.5 + jitter / 2)
        self._next_s = min(self._next_s * 2, self._max_s)
        return max(wait_s, at_least_s)

    def reset(self) -> None:
        self._next_s = self._first_s


def retry_until(request: Callable[[], T], until: float, wait: Callable[[float], object]) -> T:
    """Call `request` until it succeeds, and return its result.

    Raise its error if a retry cannot help, or if `until` (monotonic clock) would pass before the next try.
    """
    backoff = Backoff()
    while True:
        try:
            return request()
        except (Unreachable, RequestRefused) as error:
            is_transient = isinstance(error, Unreachable) or error.is_transient
            wait_s = backoff.next_s(error.retry_after_s if isinstance(error, RequestRefused) else 0.0)
            if not is_transient or time.monotonic() + wait_s >= until:
                raise
            wait(wait_s)


class TunnelAddress(ServerAddress):
    """The address of a tunnel to the server, read from a JSON file `{"url": ...}` that may not exist yet.

    The server opens the tunnel, and each new tunnel has a new port, so the file is read for every connection.
    A connection through an old tunnel can hang for minutes. It is closed as soon as the file has another URL,
    and threads that wait for a retry continue at once.
    """

    is_remote = True

    def __init__(self, path: str) -> None:
        self._path = path
        self._local = threading.local()  # the stamp of the file that each thread read last
        self._sockets: list[tuple[str, socket.socket]] = []
        self._lock = threading.Lock()
        threading.Thread(target=self._close_outdated, name="rendezvous", daemon=True).start()

    def url(self) -> str:
        self._local.stamp = self._stamp()
        return self._read()

    def on_open(self, connection: socket.socket, url: str) -> None:
        with self._lock:
            self._sockets = [(each, one) for each, one in self._sockets if one.fileno() >= 0]
            self._sockets.append((url, connection))

    def wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        seen = getattr(self._local, "stamp", None)
        while self._stamp() == seen and time.monotonic() < until:
            time.sleep(min(FILE_POLL_S, seconds))

    def _stamp(self) -> Stamp:
        try:
            status = os.stat(self._path)
        except OSError:
            return None
        return status.st_mtime_ns, status.st_ino

    def _read(self) -> str:
        try:
            with open(self._path, encoding="utf-8") as file:
                return str(json.load(file)["url"]).rstrip("/")
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise Unreachable(
                f"there is no SSH tunnel to the server now: its address cannot be read from {self._path} "
                f"({error}). The server opens the tunnel again by itself"
            ) from error

    def _close_outdated(self) -> None:
        seen, now = self._stamp(), ""
        while True:
            time.sleep(OUTDATED_POLL_S)
            stamp = self._stamp()
            if stamp != seen and stamp is not None:
                seen, now = stamp, self._read_or_default("")
            if now:
                self._close_all_except(now)

    def _read_or_default(self, default: str) -> str:
        try:
            return self._read()
        except Unreachable:
            return default

    def _close_all_except(self, now: str) -> None:
        with self._lock:
            for url, one in self._sockets:
                if url != now and one.fileno() >= 0:
                    shut_down(one)


def shut_down(one: socket.socket) -> None:
    """Interrupt all reads and writes of a connection, also those of other threads."""
    try:
        one.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # already closed
