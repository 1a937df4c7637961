"""Read requests from mailboxes and write answers to them. Everything in a mailbox is untrusted."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

from anygpu.agent.link.mailbox import MAX_HEAD_BYTES, BadMessage, encode_head, parse_head

METHODS = ("GET", "POST", "PUT")
PASSED_HEADERS = ("authorization", "content-type", "accept", "range")
MAX_PATH_LENGTH = 8192
MAX_HEADER_LENGTH = 8192
MAX_TIME_S = 2**40


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayRequest:
    """The head of a request that an agent wrote to its mailbox."""

    id: str
    method: str
    path: str  # with the query
    headers: Mapping[str, str]
    size: int
    expires_at: float | None = None  # when the agent's signed URLs expire (Unix seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayAnswer:
    """The answer to a request. `body` has exactly `size` bytes."""

    status: int
    headers: Mapping[str, str]
    size: int
    body: AsyncIterator[bytes]


class MessageBody:
    """The body of a message, in pieces. `failure` is set if it ended too early or could not be read."""

    def __init__(self, pieces: AsyncIterator[bytes], first: bytes, size: int) -> None:
        self._pieces = pieces
        self._first = first
        self._left = size
        self.failure: Exception | None = None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._limited():
                yield piece
        except Exception as error:
            self.failure = error
            raise

    async def _limited(self) -> AsyncIterator[bytes]:
        piece = self._first[: self._left]
        while self._left:
            if not piece:
                piece = (await anext(self._pieces, b""))[: self._left]
            if not piece:
                raise BadMessage("the body of the message is not complete")
            self._left -= len(piece)
            yield piece
            piece = b""


async def read_head(pieces: AsyncIterator[bytes]) -> tuple[dict[str, Any], MessageBody] | None:
    """Read the head of a message. Return it with the body; None if there is no message. Raise BadMessage."""
    read = b""
    async for piece in pieces:
        read += piece
        if b"\n" in piece or len(read) > MAX_HEAD_BYTES:
            break
    if not read:
        return None
    line, newline, rest = read.partition(b"\n")
    if len(line) > MAX_HEAD_BYTES:
        raise BadMessage("the head of the message is too long")
    head = parse_head(line + newline)
    return head, MessageBody(pieces, rest, head["size"])


def parse_request(head: Mapping[str, Any]) -> RelayRequest:
    """Return the request of a message. Raise BadMessage if it is not one."""
    method, path, headers = head.get("method"), head.get("path"), head.get("headers")
    if method not in METHODS:
        raise BadMessage("the request has no known method")
    if not isinstance(path, str) or not path.startswith("/") or len(path) > MAX_PATH_LENGTH:
        raise BadMessage("the request has no path")
    if not path.isascii() or not path.isprintable() or not isinstance(headers, dict):
        raise BadMessage("the path or the headers of the request are not valid")
    return RelayRequest(
        id=head["id"],
        method=method,
        path=path,
        headers=_passed_headers(headers),
        size=head["size"],
        expires_at=_parse_time(head.get("expires_at")),
    )


def _parse_time(value: Any) -> float | None:
    """Return Unix seconds; None if there are none. JSON has whole numbers that no float can hold."""
    if value is None:
        return None
    if not isinstance(value, int | float) or not 0 <= value < MAX_TIME_S:
        raise BadMessage("the time at which the URLs of the agent expire is not valid")
    return float(value)


def _passed_headers(headers: Mapping[Any, Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in headers.items():
        lower = str(name).lower()
        if lower in PASSED_HEADERS:
            if not isinstance(value, str) or len(value) > MAX_HEADER_LENGTH or not value.isascii():
                raise BadMessage(f"the header {lower} of the request is not valid")
            found[lower] = value
    return found


async def encode_answer(
    request_id: str, answer: RelayAnswer, renewed: Mapping[str, Any] | None
) -> AsyncIterator[bytes]:
    """Yield the message of an answer. `renewed` are new signed URLs for the agent, if it needs some."""
    head = {"id": request_id, "status": answer.status, "headers": dict(answer.headers), "size": answer.size}
    yield encode_head({**head, "relay": dict(renewed)} if renewed else head)
    async for piece in answer.body:
        yield piece
