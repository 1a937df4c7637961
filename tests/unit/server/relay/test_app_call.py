"""Requests from mailboxes, passed to an application in this process."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from anygpu.agent.link.mailbox import BadMessage
from anygpu.server.relay.app_call import AppCaller
from anygpu.server.relay.messages import MessageBody, RelayRequest, encode_answer, parse_request, read_head


async def echo(request: Request) -> Response:
    try:
        body = await request.body()
    except ClientDisconnect:
        return Response(b"incomplete", 400)
    seen = f"{request.method} {request.url.path}?{request.url.query} {request.headers.get('authorization')} "
    return Response(seen.encode() + body, headers={"X-Secret": "not passed on", "Retry-After": "7"})


async def stream(request: Request) -> Response:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield b"x" * 1000

    size = {"Content-Length": "20000"} if "size" in request.query_params else {}
    return StreamingResponse(pieces(), headers=size)


async def fail(request: Request) -> Response:
    raise RuntimeError("a bug")


APP = Starlette(
    routes=[
        Route("/echo/{name:path}", echo, methods=["GET", "POST", "PUT"]),
        Route("/stream", stream),
        Route("/fail", fail),
    ]
)


async def pieces_of(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


def a_request(method: str, path: str, size: int = 0, **headers: str) -> RelayRequest:
    return parse_request({"id": "1", "method": method, "path": path, "headers": headers, "size": size})


async def call(request: RelayRequest, *pieces: bytes) -> tuple[int, dict[str, str], bytes]:
    body = MessageBody(pieces_of(*pieces), b"", request.size)
    async with AppCaller(APP)(request, body) as answer:
        content = b"".join([piece async for piece in answer.body])
        assert len(content) == answer.size
        return answer.status, dict(answer.headers), content


async def test_the_application_sees_the_request_as_over_http() -> None:
    request = a_request("POST", "/echo/a%20b?c=d", 6, Authorization="Bearer t", Cookie="dropped")
    status, headers, content = await call(request, b"abc", b"def")
    assert (status, content) == (200, b"POST /echo/a b?c=d Bearer t abcdef")
    assert headers == {"retry-after": "7"}


@pytest.mark.parametrize("query", ["", "?size"])
async def test_a_streamed_answer_passes_whether_its_size_is_known_or_not(query: str) -> None:
    assert await call(a_request("GET", f"/stream{query}")) == (200, {}, b"x" * 20000)


async def test_an_error_of_the_application_is_an_answer() -> None:
    status, _, _ = await call(a_request("GET", "/fail"))
    assert status == 500


async def test_what_has_no_route_is_not_found() -> None:
    assert (await call(a_request("GET", "/api/v1/training")))[0] == 404


async def test_a_body_that_ends_too_early_is_told_to_the_caller() -> None:
    body = MessageBody(pieces_of(b"abc"), b"", 10)
    async with AppCaller(APP)(a_request("PUT", "/echo/x", 10), body):
        assert isinstance(body.failure, BadMessage)


async def test_more_than_the_announced_size_is_not_read() -> None:
    assert (await call(a_request("PUT", "/echo/x", 3), b"abcdef"))[2].endswith(b" abc")


@pytest.mark.parametrize(
    "head",
    [
        {"method": "DELETE"},
        {"method": ["GET"]},
        {"path": "x"},
        {"path": 5},
        {"path": "/" + "x" * 9000},
        {"path": "/a\nb"},
        {"path": "/\u00e9"},
        {"headers": []},
        {"headers": {"Authorization": 5}},
        {"headers": {"Authorization": "x" * 9000}},
    ],
)
def test_a_head_that_is_not_valid_is_refused(head: dict[str, Any]) -> None:
    good = {"id": "1", "method": "GET", "path": "/", "headers": {}, "size": 0}
    parse_request(good)
    with pytest.raises(BadMessage):
        parse_request({**good, **head})


@pytest.mark.parametrize(
    "message",
    [
        b"no newline",
        b"not json\n",
        b"5\n",
        b"{}\n",
        b'{"id": 5, "size": 0}\n',
        b'{"id": "a", "size": true}\n',
        b'{"id": "a", "size": -1}\n',
        b"[" * 60_000 + b"\n",
        b"x" * 70_000 + b"\n",
    ],
)
async def test_a_message_without_a_head_is_refused(message: bytes) -> None:
    with pytest.raises(BadMessage):
        await read_head(pieces_of(message[:10], message[10:]))


async def test_no_message_is_no_mistake() -> None:
    assert await read_head(pieces_of()) is None


async def test_an_answer_brings_new_urls_when_there_are_some() -> None:
    async with AppCaller(APP)(a_request("GET", "/stream?size"), MessageBody(pieces_of(), b"", 0)) as answer:
        pieces = [piece async for piece in encode_answer("7", answer, {"expires_at": 9})]
    found = await read_head(pieces_of(*pieces))
    assert found is not None
    assert (found[0]["id"], found[0]["relay"], found[0]["size"]) == ("7", {"expires_at": 9}, 20000)
