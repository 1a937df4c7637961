"""A client that knows several servers uses another one if one fails: real sockets, scripted answers."""

import json
import socket
from collections.abc import Iterator

import pytest
from tests.acceptance.cli.test_connection import answer, served, stream_of

from anygpu.errors import ServerUnreachable
from anygpu.sdk.client import Client
from anygpu.sdk.context import Context, find_context, locator_of
from anygpu.sdk.http import ServerConnection
from anygpu.sdk.platform import Platform
from anygpu.sdk.stream import MessageStream


@pytest.fixture
def dead() -> Iterator[str]:
    """The address of a server that refuses connections."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


def client_of(*urls: str) -> Client:
    return Client(locator_of(Context("test", ",".join(urls), "token")))


def test_reads_and_submissions_go_to_a_server_that_lives(dead: str) -> None:
    with served(lambda number, line: answer(b'{"id": "a"}')) as (url, asked):
        assert client_of(dead, url).job("a") == {"id": "a"}
        assert client_of(dead, url).submit({"command": "true"}) == {"id": "a"}
    assert [line.split()[0] for line in asked] == ["GET", "POST"]


def test_a_server_that_stops_is_left(dead: str) -> None:
    busy = answer(b"{}", "503 Service Unavailable")
    with (
        served(lambda number, line: busy) as (first, asked_first),
        served(lambda number, line: answer(b'{"id": "a"}')) as (second, asked_second),
    ):
        client = client_of(first, second)
        assert [client.job("a"), client.job("a")] == [{"id": "a"}] * 2
    assert (len(asked_first), len(asked_second)) == (1, 2), "it stays with the server that works"


def test_a_request_that_must_not_be_repeated_is_sent_once(dead: str) -> None:
    with (
        served(lambda number, line: b"") as (first, asked_first),
        served(lambda number, line: answer(b"{}")) as (second, asked_second),
    ):
        client_of(dead, second).http.request("POST", "/api/v1/tokens", body={})
        with pytest.raises(ServerUnreachable):
            client_of(first, second).http.request("POST", "/api/v1/tokens", body={})
    assert (len(asked_first), len(asked_second)) == (1, 1)


def test_a_stream_continues_at_another_server() -> None:
    events: list[dict[str, object]] = [{"kind": "event", "after": number} for number in (1, 2, 3)]
    end: dict[str, object] = {"kind": "end"}
    with (
        served(lambda number, line: stream_of(*events[:2], torn=b'{"kind"')) as (first, _),
        served(lambda number, line: stream_of(*events[1:], end)) as (second, asked),
    ):
        locator = locator_of(Context("test", f"{first},{second}", "token"))
        stream = MessageStream(ServerConnection(locator), "/stream")
        assert [*stream] == [*events, end]
    assert "after=2" in asked[0]


def test_several_addresses_come_from_the_environment(dead: str) -> None:
    context = find_context("", {"ANYGPU_URL": " http://a/ , http://b", "ANYGPU_TOKEN": "t"})
    assert context.urls == ["http://a", "http://b"]
    with served(lambda number, line: answer(json.dumps({"jobs": []}).encode())) as (url, _):
        assert not [*Platform(f"{dead},{url}/", "t").jobs()]
