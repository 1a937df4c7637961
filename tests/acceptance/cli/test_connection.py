"""The client against servers that misbehave: real sockets, scripted answers."""

import base64
import hashlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from anygpu.errors import BlobCorrupt, NotFound, RateLimited, ServerUnreachable
from anygpu.sdk.client import Client
from anygpu.sdk.downloads import Downloader, RemoteFile
from anygpu.sdk.http import Endpoint, ServerConnection
from anygpu.sdk.stream import MessageStream

Script = Callable[[int, str], bytes]


@contextmanager
def served(script: Script) -> Iterator[tuple[str, list[str]]]:
    """A server that answers request number n with `script(n, request line)` and then closes the connection."""
    asked: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=_serve, args=(listening, script, asked), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", asked
        listening.shutdown(socket.SHUT_RDWR)
    thread.join(5)


def _serve(listening: socket.socket, script: Script, asked: list[str]) -> None:
    while True:
        try:
            connection, _ = listening.accept()
        except OSError:
            return
        with connection:
            request = b""
            while b"\r\n\r\n" not in request:
                request += connection.recv(65536) or b"\r\n\r\n"
            asked.append(request.split(b"\r\n", 1)[0].decode())
            connection.sendall(script(len(asked), asked[-1]))


def answer(
    body: bytes,
    status: str = "200 OK",
    kind: str = "application/json",
    length: int | None = None,
    *,
    announces_close: bool = True,
) -> bytes:
    size = len(body) if length is None else length
    headers = [f"Content-Type: {kind}", f"Content-Length: {size}"]
    if (
        announces_close
    ):  # or a client might send its next request before it sees that the connection is closed
        headers.append("Connection: close")
    return "\r\n".join([f"HTTP/1.1 {status}", *headers, "", ""]).encode() + body


def stream_of(*messages: dict[str, object], torn: bytes = b"") -> bytes:
    body = b"".join(json.dumps(each).encode() + b"\n" for each in messages) + torn
    return answer(body, kind="application/x-ndjson", length=len(body) + (0 if not torn else 10_000))


@pytest.fixture
def client() -> Iterator[Callable[[str], Client]]:
    made: list[Client] = []

    def make(url: str) -> Client:
        made.append(Client(lambda: Endpoint(url, "secret")))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def http() -> Iterator[Callable[..., ServerConnection]]:
    made: list[ServerConnection] = []

    def make(*urls: str, **more: Any) -> ServerConnection:
        places = iter(urls)
        made.append(
            ServerConnection(lambda: Endpoint(next(places) if len(urls) > 1 else urls[0], "t"), **more)
        )
        return made[-1]

    yield make
    for each in made:
        each.close()


Clients = Callable[[str], Client]
Https = Callable[..., ServerConnection]


def log(end: int, text: bytes) -> dict[str, object]:
    return {"kind": "log", "attempt": 1, "log": end, "data": base64.b64encode(text).decode()}


def test_a_stream_that_breaks_anywhere_is_delivered_whole_and_once(http: Https) -> None:
    def script(number: int, request: str) -> bytes:
        if number == 1:
            return stream_of(
                {"kind": "event", "after": 1, "event": {"n": 1}}, log(3, b"abc"), torn=b'{"kind": "ev'
            )
        if number == 2:
            return b""
        return stream_of(
            {"kind": "event", "after": 1, "event": {"n": 1}}, log(5, b"bcde"), {"kind": "end", "status": "ok"}
        )

    with served(script) as (url, asked):
        messages = list(MessageStream(http(url), "/stream"))
    assert [each["kind"] for each in messages] == ["event", "log", "log", "end"]
    assert b"".join(each["data"] for each in messages if each["kind"] == "log") == b"abcde"
    assert asked[2] == "GET /stream?after=1&attempt=1&log=3 HTTP/1.1"


def test_a_stream_gives_up_when_the_server_stays_away(http: Https) -> None:
    with served(lambda number, request: b"") as (url, _):
        broken: list[Exception] = []
        stream = MessageStream(http(url), "/stream", patience_s=0.3, on_break=broken.append)
        with pytest.raises(ServerUnreachable):
            list(stream)
    assert len(broken) == 1


def test_a_stream_of_a_job_that_is_not_there_says_so_at_once(client: Clients) -> None:
    problem = json.dumps({"code": "not_found", "detail": "no job x"}).encode()
    with served(lambda number, request: answer(problem, "404 Not Found", "application/problem+json")) as (
        url,
        asked,
    ):
        with pytest.raises(NotFound, match="no job x"):
            list(client(url).stream("x"))
        assert len(asked) == 1


def test_a_call_that_may_be_repeated_is_repeated(client: Clients) -> None:
    with served(lambda number, request: b"" if number < 3 else answer(b'{"id": "j"}')) as (url, asked):
        assert client(url).job("j") == {"id": "j"}
        assert len(asked) == 3


def test_submitting_is_repeated_with_the_same_key(client: Clients) -> None:
    with served(lambda number, request: b"" if number < 2 else answer(b'{"id": "j"}')) as (url, asked):
        assert client(url).submit({"code": "pass"})["id"] == "j"
        assert asked == ["POST /api/v1/training HTTP/1.1"] * 2


def test_a_call_that_may_not_be_repeated_is_not(client: Clients) -> None:
    with served(lambda number, request: b"") as (url, asked):
        with pytest.raises(ServerUnreachable):
            client(url).login_link()
        assert len(asked) == 1


def test_a_busy_server_is_asked_again_and_then_believed(http: Https) -> None:
    problem = json.dumps({"code": "rate_limited", "detail": "slow down"}).encode()
    with served(lambda number, request: answer(problem, "429 Too Many", "application/problem+json")) as (
        url,
        asked,
    ):
        with pytest.raises(RateLimited):
            http(url, tries=3).request("GET", "/x")
        assert len(asked) == 3


def test_a_server_that_moved_is_found_again(http: Https) -> None:
    with served(lambda number, request: answer(b'{"id": "j"}')) as (url, _):
        assert http("http://127.0.0.1:1", url).request("GET", "/x").json() == {"id": "j"}


def test_a_connection_the_server_closed_meanwhile_is_not_used_again(http: Https) -> None:
    with served(lambda number, request: answer(b"{}", announces_close=False)) as (url, _):
        kept = http(url, tries=1)
        for _ in range(3):
            assert kept.request("POST", "/x").json() == {}
            time.sleep(0.3)  # until the server has closed the connection


def remote(url: str, content: bytes, chunks: int) -> RemoteFile:
    return RemoteFile(
        "m.bin", len(content), hashlib.sha256(content).hexdigest(), [f"{url}/{n}" for n in range(chunks)]
    )


def test_a_download_goes_on_by_chunk_where_it_broke(tmp_path: Path) -> None:
    content = [b"first" * 100, b"second" * 100]
    broken = {"once": True}

    def script(number: int, request: str) -> bytes:
        if "GET /1 " in request and broken.pop("once", False):
            return answer(content[1][:10], length=len(content[1]))
        return answer(content[int(request.split()[1][1:])])

    with served(script) as (url, asked):
        fetched = Downloader(tmp_path, url).fetch(remote(url, b"".join(content), 2))
    assert fetched.path.read_bytes() == b"".join(content)
    assert [line.split()[1] for line in asked] == ["/0", "/1", "/1"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.bin"]


def test_a_download_broken_off_by_a_crash_goes_on_in_the_next_run(tmp_path: Path) -> None:
    content = [b"first" * 100, b"second" * 100]

    def one_chunk_only(number: int, request: str) -> bytes:
        return answer(content[0]) if "GET /0 " in request else answer(b"", "500 Broken")

    with served(one_chunk_only) as (url, _), pytest.raises(Exception, match="500"):
        Downloader(tmp_path, url).fetch(remote(url, b"".join(content), 2))
    with served(lambda number, request: answer(content[1])) as (url, asked):
        fetched = Downloader(tmp_path, url).fetch(remote(url, b"".join(content), 2))
    assert fetched.path.read_bytes() == b"".join(content)
    assert [line.split()[1] for line in asked] == ["/1"]


def test_damaged_content_is_never_left_under_its_name(tmp_path: Path) -> None:
    with served(lambda number, request: answer(b"evil")) as (url, _):
        file = RemoteFile("m.bin", 4, hashlib.sha256(b"good").hexdigest(), [f"{url}/0"])
        with pytest.raises(BlobCorrupt):
            Downloader(tmp_path, url).fetch(file)
    assert list(tmp_path.iterdir()) == []


def test_our_token_is_not_sent_to_whoever_serves_the_files(tmp_path: Path) -> None:
    seen: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                seen.append(connection.recv(65536))
                connection.sendall(answer(b"x"))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        Downloader(tmp_path, url).fetch(remote(url, b"x", 1))
        thread.join(5)
    assert b"authorization" not in seen[0].lower()
