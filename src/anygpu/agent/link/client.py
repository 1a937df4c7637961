"""Call the server: requests, refusals, retries, and where the server is."""

from __future__ import annotations

import json
import os
import socket
import threading
import time

from anygpu.agent.link.http11 import HttpConnection, Unreachable

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from typing import Any, Optional, TypeVar

    from anygpu.agent.link.http11 import Body, StreamedResponse

    T = TypeVar("T")
    Stamp = Optional[tuple[int, int]]


class RequestRefused(Exception):
    """The server answered, and the answer is no."""

    def __init__(self, status: int, problem: dict[str, Any], retry_after_s: float = 0.0) -> None:
        self.status = status
        self.problem = problem
        self.code = str(problem.get("code", ""))
        self.retry_after_s = retry_after_s
        super().__init__(
            f"{status} {self.code or problem.get('title', '')} {problem.get('detail', '')}".strip()
        )

    @property
    def is_transient(self) -> bool:
        return self.status >= 500 or self.status in (408, 425, 429)

    @property
    def is_rejection(self) -> bool:
        return self.status in (401, 403, 404) or self.code == "superseded"


class ServerAddress:
    """Where the agent listener is: here, at one address for good. `Rendezvous` is the one that moves."""

    is_remote = False

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")

    def url(self) -> str:
        """Asked for every new connection. Raises `Unreachable` while there is no way to the server."""
        return self._url

    def on_open(self, made: socket.socket) -> None:
        """Told of every connection to the listener."""

    def wait(self, seconds: float) -> None:
        """Wait before trying again; shorter when the way to the server has become another meanwhile."""
        time.sleep(seconds)


class ServerClient:
    """The agent listener, as one thread sees it: `call` asks once and answers with JSON, or raises."""

    def __init__(self, place: ServerAddress, token: str = "") -> None:
        self.address = place
        self._token = token
        self._connection = HttpConnection(place.url, place.on_open)

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

    def open_connection(self, url: str) -> HttpConnection:
        """To a signed address. One that begins with / lies on this listener, wherever that is by then."""
        if url.startswith("/"):
            return HttpConnection(lambda: self.address.url() + url, self.address.on_open)
        return HttpConnection(lambda: url)

    def _parse_response(self, response: StreamedResponse) -> dict[str, Any]:
        try:
            said = parse_body(response.body())
        except Unreachable:
            self._connection.close()
            raise
        if response.headers.get("connection", "").lower() == "close":
            self._connection.close()
        if response.status >= 300:
            raise RequestRefused(
                response.status, said, _retry_after_s(response.headers.get("retry-after", ""))
            )
        return said


def parse_body(body: bytes) -> dict[str, Any]:
    try:
        said = json.loads(body) if body else {}
    except ValueError:
        said = {"detail": body[:200].decode("utf-8", "replace")}
    return said if isinstance(said, dict) else {"value": said}


def _retry_after_s(said: str) -> float:
    return min(float(said), 30.0) if said.isdigit() else 0.0


class Backoff:
    """How long to wait before the next try.

    Doubling, with chance in it so that agents do not come back as one.
    """

    def __init__(self, first_s: float = 0.1, most_s: float = 5.0) -> None:
        self._first_s, self._most_s, self._next_s = first_s, most_s, first_s

    def next_s(self, at_least_s: float = 0.0) -> float:
        chance = os.urandom(1)[0] / 255
        wait_s = self._next_s * (0.5 + chance / 2)
        self._next_s = min(self._next_s * 2, self._most_s)
        return max(wait_s, at_least_s)

    def reset(self) -> None:
        self._next_s = self._first_s


def retry_until(ask: Callable[[], T], until: float, wait: Callable[[float], object]) -> T:
    """Ask until there is an answer, or a refusal that will not pass, or `until` (monotonic) is over."""
    backoff = Backoff()
    while True:
        try:
            return ask()
        except (Unreachable, RequestRefused) as error:
            passes = isinstance(error, Unreachable) or error.is_transient
            wait_s = backoff.next_s(error.retry_after_s if isinstance(error, RequestRefused) else 0.0)
            if not passes or time.monotonic() + wait_s >= until:
                raise
            wait(wait_s)


FILE_POLL_S = 0.05  # while somebody waits: what was spooled is seen as soon as there is a tunnel again
OUTDATED_POLL_S = 0.25


class TunnelAddress(ServerAddress):
    """Reads `{"url": ...}` from a file that is replaced whole, and may not be there yet."""

    is_remote = True

    def __init__(self, path: str) -> None:
        self._path = path
        self._local = threading.local()  # what each thread saw when it last asked for the address
        self._sockets: list[tuple[str, socket.socket]] = []
        self._lock = threading.Lock()
        threading.Thread(target=self._close_outdated, name="rendezvous", daemon=True).start()

    def url(self) -> str:
        self._local.stamp = self._stamp()
        self._local.url = url = self._read()
        return url

    def on_open(self, made: socket.socket) -> None:
        with self._lock:
            self._sockets = [(url, one) for url, one in self._sockets if one.fileno() >= 0]
            self._sockets.append((self._local.url, made))

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
            raise Unreachable(f"{self._path} does not say where the tunnel is: {error}") from error

    def _close_outdated(self) -> None:
        seen, now = self._stamp(), ""
        while True:
            time.sleep(OUTDATED_POLL_S)
            stamp = self._stamp()
            if stamp != seen and stamp is not None:
                seen, now = stamp, self._read_or("")
            if now:
                self._close_all_except(now)

    def _read_or(self, otherwise: str) -> str:
        try:
            return self._read()
        except Unreachable:
            return otherwise

    def _close_all_except(self, now: str) -> None:
        with self._lock:
            for url, one in self._sockets:
                if url != now and one.fileno() >= 0:
                    _shut_down(one)


def _shut_down(one: socket.socket) -> None:
    try:
        one.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # it was closed meanwhile
