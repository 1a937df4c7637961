"""Clients that send slowly, too much, or nothing do not take the server from others, on both listeners."""

import http.client
import resource
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.acceptance.server.raw_http import connect, read_until_closed, request_bytes, send_raw
from tests.acceptance.server.real_server import Server

HEADER_S = 1
CLOSE_S = 60  # far more than the limits of this server
LISTENERS = ["url", "agent_url"]
HOST = {"Host": "127.0.0.1"}
MIB = 1024 * 1024


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    made = Server(
        tmp_path_factory.mktemp("server"),
        ANYGPU_LIMITS__HEADER_S=str(HEADER_S),
        ANYGPU_LIMITS__SILENCE_S="2",
        ANYGPU_LOCAL__ENABLED="no",
    )
    yield made
    made.stop()


@pytest.fixture(params=LISTENERS)
def url(request: pytest.FixtureRequest, server: Server) -> str:
    return str(getattr(server, request.param))


def is_served(server: Server) -> bool:
    return server.ask("GET", "/healthz", token=None).status == 200


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer else 0


def test_an_endless_header_is_refused(server: Server, url: str) -> None:
    with connect(url) as raw:
        raw.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Endless: ")
        sent = send_until_refused(raw, b"x" * 65536, limit=64 * MIB)
        assert sent < 16 * MIB
        assert is_served(server)


@pytest.mark.parametrize("part", [b"GET /", b"GET / HTTP/1.1\r\n" + b"x", b"\r\n"])
def test_an_endless_start_of_a_request_is_refused(server: Server, url: str, part: bytes) -> None:
    with connect(url) as raw:
        raw.sendall(part)
        filler = b"\r\n" * 32768 if part == b"\r\n" else b"x" * 65536
        assert send_until_refused(raw, filler, limit=64 * MIB) < 16 * MIB
    assert is_served(server)


@pytest.mark.parametrize(
    "head",
    [
        b"x: " + b"y" * 70_000 + b"\r\n",
        b"x: y\r\n" * 500,
        b"x: y\r\n" * 60_000,
        b"".join(b"a%d: b\r\n" % n for n in range(101)),
    ],
    ids=["long", "many", "very many", "one too many"],
)
def test_large_headers_get_431(url: str, head: bytes) -> None:
    with connect(url) as raw:
        raw.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n" + head + b"\r\n")
        answer = read_until_closed(raw)
    assert status_of(answer) in (431, 0)  # 0: the connection was reset before the answer was read
    assert not answer or b'"header_too_large"' in answer


def test_a_request_with_headers_below_the_limits_is_answered(server: Server) -> None:
    headers = {**HOST, **{f"X-{number}": "y" * 500 for number in range(90)}}
    assert status_of(send_raw(server.url, request_bytes("GET", "/healthz", headers))) == 200


def test_endless_trailers_are_refused(server: Server, url: str) -> None:
    start = request_bytes("POST", "/agent/v1/claim", {**HOST, "Transfer-Encoding": "chunked"})
    with connect(url) as raw:
        raw.sendall(start + b"2\r\n{}\r\n0\r\n")
        assert send_until_refused(raw, b"Trailer: " + b"x" * 1000 + b"\r\n", limit=64 * MIB) < 16 * MIB
    assert is_served(server)


@pytest.mark.parametrize(
    "start", [b"", b"GET", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "], ids=["silent", "method", "header"]
)
def test_a_client_that_does_not_complete_its_headers_is_disconnected(url: str, start: bytes) -> None:
    with connect(url, CLOSE_S) as raw:
        raw.sendall(start)
        assert status_of(read_until_closed(raw)) == 408


def test_a_client_that_sends_its_headers_byte_by_byte_is_disconnected(server: Server, url: str) -> None:
    with connect(url, CLOSE_S) as raw:
        raw.sendall(b"GET / HTTP/1.1\r\n")
        sent = send_until_refused(raw, b"x", limit=10_000, pause_s=0.05)
        assert sent < 10_000
    assert is_served(server)


def test_a_client_that_pauses_in_its_body_is_disconnected(server: Server) -> None:
    start = request_bytes("POST", "/agent/v1/claim", {**HOST, "Content-Length": "100"})
    with connect(server.agent_url, CLOSE_S) as raw:
        raw.sendall(start + b"{")
        assert status_of(read_until_closed(raw)) in (400, 408)


def test_a_client_that_sends_a_body_after_the_answer_is_disconnected(server: Server) -> None:
    start = request_bytes("POST", "/api/v1/training", {**HOST, "Content-Length": str(10**9)})
    with connect(server.url, CLOSE_S) as raw:
        raw.sendall(start)
        assert status_of(raw.recv(65536)) == 401
        assert send_until_refused(raw, b"x" * 1000, limit=100 * MIB, pause_s=0.01) < 100 * MIB


def test_a_client_that_does_not_read_is_disconnected(server: Server) -> None:
    before = settled_open_files(server)
    with connect(server.url, 1) as raw:
        try:
            for _ in range(200):
                raw.sendall(request_bytes("GET", "/api/v1/openapi.json", HOST))
        except TimeoutError:
            pass  # the server no longer reads, because nobody reads its answers
        wait_until(lambda: open_files(server) > before)
        wait_until(lambda: open_files(server) <= before)
    assert is_served(server)


def settled_open_files(server: Server) -> int:
    """Return the number when it has not changed for a second: connections of other tests are closed by then."""
    counts = [open_files(server)]
    while len(counts) < 10 or len({*counts[-10:]}) > 1:
        time.sleep(0.1)
        counts.append(open_files(server))
    return counts[-1]


def open_files(server: Server) -> int:
    return len([*Path(f"/proc/{server.process.pid}/fd").iterdir()])


def test_a_kept_connection_serves_many_requests(server: Server, url: str) -> None:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=CLOSE_S)
    connection.connect()
    used = connection.sock
    for _ in range(5):
        connection.request("GET", "/healthz" if url == server.url else "/agent/v1/orders")
        answer = connection.getresponse()
        answer.read()
        assert answer.status in (200, 401)
        time.sleep(HEADER_S / 2)  # in total longer than the limit for the headers of one request
    assert connection.sock is used
    connection.close()


@pytest.fixture
def enough_open_files() -> Iterator[None]:
    """Let the test itself open more than the usual 1,024 files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("listener", LISTENERS)
@pytest.mark.parametrize("open_files", [1024, 4096])
def test_idle_connections_on_one_listener_leave_both_available(
    new_server: Callable[..., Server], enough_open_files: None, listener: str, open_files: int
) -> None:
    server = new_server(open_files, ANYGPU_LIMITS__HEADER_S="600")
    idle: list[socket.socket] = []
    try:
        idle.extend(connect(getattr(server, listener)) for _ in range(1100))
        assert is_served(server)
        assert server.ask("GET", "/api/v1/training").status == 200
        assert server.ask("GET", "/agent/v1/orders", token=None, base=server.agent_url).status == 401
        job_id = server.submit(command=["true"])
        assert server.wait_ended(job_id)["status"] == "completed"
    finally:
        for each in idle:
            each.close()
    assert "Traceback" not in server.error_log


def test_a_busy_connection_is_kept_when_idle_ones_are_closed(new_server: Callable[..., Server]) -> None:
    server = new_server(ANYGPU_LIMITS__CONNECTIONS="8")
    with connect(server.url) as stream:
        headers = {**HOST, "Authorization": f"Bearer {server.token}"}
        stream.sendall(request_bytes("GET", "/api/v1/stream", headers))
        assert status_of(stream.recv(65536)) == 200
        idle = [connect(server.url) for _ in range(30)]
        job_id = server.submit(command=["true"])
        received = b""
        while job_id.encode() not in received:
            received += stream.recv(65536)
        for each in idle:
            each.close()


def test_streams_that_use_every_connection_are_not_closed_for_a_new_one(
    new_server: Callable[..., Server],
) -> None:
    server = new_server(ANYGPU_LIMITS__CONNECTIONS="8")
    headers = {**HOST, "Authorization": f"Bearer {server.token}"}
    streams = [connect(server.url) for _ in range(8)]
    for each in streams:
        each.sendall(request_bytes("GET", "/api/v1/stream", headers))
        assert status_of(each.recv(65536)) == 200
    with connect(server.url) as refused:
        answer = read_until_closed(refused)
    assert (status_of(answer), b"too_many_connections" in answer) == (503, True)
    streams.pop().close()
    wait_until(lambda: answers(server))
    for each in streams:
        each.close()


def answers(server: Server) -> bool:
    try:
        return is_served(server)
    except OSError:
        return False


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + CLOSE_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def send_until_refused(raw: socket.socket, data: bytes, *, limit: int, pause_s: float = 0) -> int:
    """Send data again and again until the server closes the connection. Return the number of bytes sent."""
    sent = 0
    try:
        while sent < limit:
            raw.sendall(data)
            sent += len(data)
            time.sleep(pause_s)
    except OSError:
        pass
    return sent
