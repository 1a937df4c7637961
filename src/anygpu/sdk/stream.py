"""Follow a job's message stream across broken connections, without gaps or duplicates."""

import base64
import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from anygpu.errors import AnygpuError, ServerUnreachable, describe_error
from anygpu.sdk.http import ServerConnection, backoff_s, error_from_problem

SILENCE_S = 40.0  # the server sends a ping every 15 s, so at least two are missing by then
PATIENCE_S = 120.0
Message = dict[str, Any]


@dataclass(frozen=True, slots=True)
class StreamCursor:
    """A position in a job's stream of messages. All messages before it were received."""

    after: int = 0
    attempt: int = 0
    log: int = 0
    point: int = 0

    def query(self) -> dict[str, Any]:
        return {
            "after": self.after,
            "attempt": self.attempt or None,
            "log": self.log or None,
            "point": self.point or None,
        }


START = StreamCursor()


def advance(cursor: StreamCursor, message: Message) -> tuple[StreamCursor, Message | None]:
    """Return the cursor after a message, and the part of the message that is new to the client (None if nothing is)."""
    kind = message.get("kind")
    if kind == "event":
        return _advance_event(cursor, message)
    if kind not in ("log", "metrics"):
        return cursor, message
    if message["attempt"] < cursor.attempt:
        return cursor, None
    if message["attempt"] > cursor.attempt:
        cursor = replace(cursor, attempt=message["attempt"], log=0, point=0)
    return _advance_log(cursor, message) if kind == "log" else _advance_metrics(cursor, message)


def _advance_event(cursor: StreamCursor, message: Message) -> tuple[StreamCursor, Message | None]:
    if message["after"] <= cursor.after:
        return cursor, None
    return replace(cursor, after=message["after"]), message


def _advance_log(cursor: StreamCursor, message: Message) -> tuple[StreamCursor, Message | None]:
    data = base64.b64decode(message["data"])
    fresh = message["log"] - cursor.log
    if fresh <= 0:
        return cursor, None
    return replace(cursor, log=message["log"]), {**message, "data": data[-fresh:]}


def _advance_metrics(cursor: StreamCursor, message: Message) -> tuple[StreamCursor, Message | None]:
    fresh = message["point"] - cursor.point
    if fresh <= 0:
        return cursor, None
    return replace(cursor, point=message["point"]), {**message, "points": message["points"][-fresh:]}


class MessageStream:
    """An iterator over the messages of a stream, up to and including `end`. Log data are bytes."""

    def __init__(
        self,
        http: ServerConnection,
        path: str,
        *,
        include: Sequence[str] = (),
        cursor: StreamCursor = START,
        node: int = 0,
        patience_s: float = PATIENCE_S,
        on_break: Callable[[AnygpuError], None] = lambda _: None,
    ) -> None:
        self.cursor = cursor
        self._http = http
        self._path = path
        self._selection = {"include": ",".join(include) or None, "node": node or None}
        self._patience_s = patience_s
        self._on_break = on_break
        self._closing = threading.Event()
        self._interrupted = threading.Event()
        self._broken_since: float | None = None
        self._turns = 0

    def __iter__(self) -> Iterator[Message]:
        while True:
            if self._interrupted.is_set():
                self._interrupted.clear()
                self._http.reset()
                yield {"kind": "interrupted"}
            try:
                for message in self._messages():
                    _raise_problem(message)
                    self._broken_since, self._turns = None, 0
                    yield from self._fresh(message)
                    if message.get("kind") == "end":
                        return
                raise ServerUnreachable(
                    "The server closed the connection before the job ended. The job keeps running; repeat the "
                    "command to follow it again."
                )
            except AnygpuError as error:
                if self._closing.is_set():
                    return
                if not self._interrupted.is_set():
                    self._wait_or_raise(error)

    def close(self) -> None:
        """Stop the iteration. May be called from another thread."""
        self._closing.set()
        self._interrupted.set()
        self._http.abort()

    def interrupt(self) -> None:
        """Make the iterator yield a message `interrupted` next, then continue. Safe in a signal handler."""
        self._interrupted.set()
        self._http.abort()

    def _messages(self) -> Iterator[Message]:
        query = {**self.cursor.query(), **self._selection}
        response = self._http.open(self._path, query, silence_s=SILENCE_S)
        if self._interrupted.is_set():
            raise ServerUnreachable("The connection to the server was interrupted. Try again.")
        try:
            yield from (json.loads(line) for line in read_lines(response))
        except (OSError, http.client.HTTPException, ValueError) as error:
            self._http.reset()
            raise ServerUnreachable(
                f"The connection to the server was lost ({describe_error(error)}). Try again."
            ) from error

    def _fresh(self, message: Message) -> Iterator[Message]:
        self.cursor, new = advance(self.cursor, message)
        if new is not None and new.get("kind") != "ping":
            yield new

    def _wait_or_raise(self, error: AnygpuError) -> None:
        if not error.retryable:
            raise error
        now = time.monotonic()
        if self._broken_since is None:
            self._broken_since = now
            self._on_break(error)
        if now - self._broken_since > self._patience_s:
            raise error
        self._http.reset()
        self._interrupted.wait(backoff_s(self._turns))
        self._turns += 1


def _raise_problem(message: Message) -> None:
    """Raise the error that the server reported as the last message of a stream."""
    if message.get("kind") == "problem":
        document = message["problem"]
        raise error_from_problem(int(document.get("status") or 500), document)


def read_lines(response: http.client.HTTPResponse) -> Iterator[bytes]:
    """Yield complete lines as they arrive. An incomplete last line is dropped."""
    rest = b""
    while block := response.read1(65536):
        *whole, rest = (rest + block).split(b"\n")
        yield from (line for line in whole if line.strip())
