"""Messages in mailboxes are untrusted: only complete requests with known parts are read."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from anygpu.agent.link.mailbox import MAX_HEAD_BYTES, BadMessage, encode_head
from anygpu.server.relay.messages import (
    MAX_HEADER_LENGTH,
    MAX_PATH_LENGTH,
    RelayAnswer,
    encode_answer,
    parse_request,
    read_head,
)

HEAD = {"id": "7", "method": "POST", "path": "/agent/v1/claim?a=b", "headers": {}, "size": 5}


async def pieces(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


@pytest.mark.parametrize("size", [1, 7, 1000])
async def test_a_message_is_the_same_however_its_bytes_are_split(size: int) -> None:
    data = encode_head(HEAD) + b"hello and more"
    message = await read_head(pieces(*(data[at : at + size] for at in range(0, len(data), size))))
    assert message is not None
    head, body = message
    assert head == HEAD
    assert b"".join([piece async for piece in body]) == b"hello"
    assert body.failure is None


async def test_an_empty_mailbox_has_no_message() -> None:
    assert await read_head(pieces()) is None


async def test_a_body_that_ends_too_early_is_a_failure() -> None:
    message = await read_head(pieces(encode_head(HEAD) + b"hel"))
    assert message is not None
    with pytest.raises(BadMessage, match="not complete"):
        _ = [piece async for piece in message[1]]
    assert isinstance(message[1].failure, BadMessage)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"x" * (MAX_HEAD_BYTES + 1), "too long"),
        (b"no json\n", "not JSON"),
        (b'{"id": "7"', "ends with a newline"),
        (b'{"size": 3}\n', "no id"),
        (b'{"id": "7", "size": -1}\n', "how long"),
    ],
)
async def test_what_is_not_a_head_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(BadMessage, match=message):
        await read_head(pieces(data))


def test_a_request_has_only_the_headers_that_are_passed_on() -> None:
    headers = {"Authorization": "Bearer x", "Cookie": "a=b", "X-Forwarded-For": "::1", "range": "bytes=0-"}
    request = parse_request({**HEAD, "headers": headers, "expires_at": 12})
    assert request.headers == {"authorization": "Bearer x", "range": "bytes=0-"}
    assert (request.method, request.path, request.size) == ("POST", HEAD["path"], 5)
    assert request.expires_at == 12.0


@pytest.mark.parametrize(
    "change",
    [
        {"method": "DELETE"},
        {"method": None},
        {"path": "agent"},
        {"path": "/" + "a" * MAX_PATH_LENGTH},
        {"path": "/a\r\nHost: b"},
        {"path": "/é"},
        {"path": 3},
        {"headers": []},
        {"headers": {"accept": 3}},
        {"headers": {"accept": "é"}},
        {"headers": {"accept": "a" * (MAX_HEADER_LENGTH + 1)}},
        {"expires_at": 10**400},
        {"expires_at": float("nan")},
        {"expires_at": "soon"},
    ],
)
def test_a_request_with_an_invalid_part_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(BadMessage):
        parse_request({**HEAD, **change})


@pytest.mark.parametrize("renewed", [None, {"expires_at": 99.0}])
async def test_an_answer_is_read_back_as_it_was_written(renewed: dict[str, Any] | None) -> None:
    answer = RelayAnswer(status=200, headers={"etag": "x"}, size=4, body=pieces(b"ab", b"cd"))
    message = await read_head(encode_answer("7", answer, renewed))
    assert message is not None
    head, body = message
    assert (head["id"], head["status"], head["headers"]) == ("7", 200, {"etag": "x"})
    assert head.get("relay") == renewed
    assert b"".join([piece async for piece in body]) == b"abcd"
