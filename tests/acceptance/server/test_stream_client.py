"""The client of a stream passes on the errors with which a server ends the stream."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from anygpu.errors import AnygpuError, StoreBusy, Unauthorized
from anygpu.sdk.http import Endpoint, ServerConnection
from anygpu.sdk.stream import MessageStream
from anygpu.server.http.errors import problem_body

Serve = Callable[[AnygpuError], "FailingServer"]


class FailingServer(ThreadingHTTPServer):
    """Answers every request with a stream that consists of one problem."""

    def __init__(self, error: AnygpuError) -> None:
        super().__init__(("127.0.0.1", 0), FailingStream)
        self.line = json.dumps({"kind": "problem", "problem": problem_body(error)}).encode() + b"\n"
        self.requests = 0
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def stream(self) -> MessageStream:
        endpoint = Endpoint(f"http://127.0.0.1:{self.server_port}", "token")
        return MessageStream(ServerConnection(lambda: endpoint), "/stream", patience_s=0.5)


class FailingStream(BaseHTTPRequestHandler):
    server: FailingServer

    def do_GET(self) -> None:
        self.server.requests += 1
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.server.line)))
        self.end_headers()
        self.wfile.write(self.server.line)

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


@pytest.fixture
def serve() -> Iterator[Serve]:
    servers: list[FailingServer] = []

    def start(error: AnygpuError) -> FailingServer:
        servers.append(FailingServer(error))
        return servers[-1]

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def test_a_lasting_problem_ends_the_stream_at_once(serve: Serve) -> None:
    server = serve(Unauthorized("the token was revoked"))
    with pytest.raises(Unauthorized, match="revoked"):
        list(server.stream())
    assert server.requests == 1


def test_a_problem_that_does_not_pass_ends_the_patience_of_the_client(serve: Serve) -> None:
    server = serve(StoreBusy())
    with pytest.raises(StoreBusy):
        list(server.stream())
    assert server.requests > 1
