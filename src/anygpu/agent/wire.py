"""Asking the server: one call, its answer or its refusal, and how to go on asking."""

from __future__ import annotations

import json
import os
import time

from anygpu.agent.http11 import Connection, Unreachable

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from typing import Any, TypeVar

    from anygpu.agent.http11 import Answer, Body

    T = TypeVar("T")


class Refused(Exception):
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
    def may_pass(self) -> bool:
        return self.status >= 500 or self.status in (408, 425, 429)

    @property
    def we_are_nobody(self) -> bool:
        return self.status in (401, 403, 404) or self.code == "superseded"


class Place:
    """Where the agent listener is: here, at one address for good. `Rendezvous` is the one that moves."""

    moves = False

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")

    def url(self) -> str:
        """Asked for every new connection. Raises `Unreachable` while there is no way to the server."""
        return self._url

    def opened(self, made: socket.socket) -> None:
        """Told of every connection to the listener."""

    def rest(self, seconds: float) -> None:
        """Wait before trying again; shorter when the way to the server has become another meanwhile."""
        time.sleep(seconds)


class Server:
    """The agent listener, as one thread sees it: `call` asks once and answers with JSON, or raises."""

    def __init__(self, place: Place, token: str = "") -> None:
        self.place = place
        self._token = token
        self._connection = Connection(place.url, place.opened)

    def call(
        self, method: str, path: str, body: Body | dict[str, Any] = b"", timeout_s: float = 30.0
    ) -> dict[str, Any]:
        kind = "application/octet-stream"
        if isinstance(body, dict):
            body, kind = json.dumps(body).encode(), "application/json"
        headers = {"Content-Type": kind, "Accept": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        return self._judge(self._connection.request(method, path, headers, body, timeout_s))

    def close(self) -> None:
        self._connection.close()

    def connection(self, url: str) -> Connection:
        """To a signed address. One that begins with / lies on this listener, wherever that is by then."""
        if url.startswith("/"):
            return Connection(lambda: self.place.url() + url, self.place.opened)
        return Connection(lambda: url)

    def _judge(self, answer: Answer) -> dict[str, Any]:
        try:
            said = parsed(answer.body())
        except Unreachable:
            self._connection.close()
            raise
        if answer.headers.get("connection", "").lower() == "close":
            self._connection.close()
        if answer.status >= 300:
            raise Refused(answer.status, said, _seconds(answer.headers.get("retry-after", "")))
        return said


def parsed(body: bytes) -> dict[str, Any]:
    try:
        said = json.loads(body) if body else {}
    except ValueError:
        said = {"detail": body[:200].decode("utf-8", "replace")}
    return said if isinstance(said, dict) else {"value": said}


def _seconds(said: str) -> float:
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


def persist(ask: Callable[[], T], until: float, wait: Callable[[float], object]) -> T:
    """Ask until there is an answer, or a refusal that will not pass, or `until` (monotonic) is over."""
    backoff = Backoff()
    while True:
        try:
            return ask()
        except (Unreachable, Refused) as error:
            passes = isinstance(error, Unreachable) or error.may_pass
            wait_s = backoff.next_s(error.retry_after_s if isinstance(error, Refused) else 0.0)
            if not passes or time.monotonic() + wait_s >= until:
                raise
            wait(wait_s)
