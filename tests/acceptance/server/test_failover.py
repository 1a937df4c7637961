"""Two servers on one PostgreSQL: when the leader is killed, the other continues its jobs."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.acceptance.server.real_server import Server
from tests.contracts.store.conftest import postgres_url  # noqa: F401 - a fixture

from anygpu.sdk.failover import FailoverLocator
from anygpu.sdk.http import ServerConnection
from anygpu.sdk.stream import MessageStream
from anygpu.testing.servers.failover_proxy import FailoverProxy

COUNTING = "import time\nfor i in range(120): print(f'step={i} loss={1 / (i + 1):.4f}', flush=True); time.sleep(0.05)"


@pytest.fixture
def pair(postgres_url: str, tmp_path: Path) -> Iterator[tuple[Server, Server, FailoverProxy]]:  # noqa: F811
    with FailoverProxy() as board:
        common = {
            "ANYGPU_STORE__DATABASE": postgres_url,
            "ANYGPU_STORE__BLOBS": (tmp_path / "blobs").as_uri(),
            "ANYGPU_SERVER__SIGNING_KEY": str(tmp_path / "signing.key"),
            "ANYGPU_SERVER__AGENT_URL": board.url,
            "ANYGPU_LOCAL__ATTEMPTS": str(tmp_path / "attempts"),
            "ANYGPU_LOCAL__CPUS": "1",
            "ANYGPU_CONTROL__LEADER_TTL_S": "2",
            "ANYGPU_CONTROL__POLL_EVENTS_S": "0.1",
        }
        first, second = (Server(tmp_path / name, **common) for name in folders(tmp_path))
        board.connect(listener(first))
        yield first, second, board
        second.cancel_everything()
        first.stop()
        second.stop()


def listener(server: Server) -> str:
    return f"http://127.0.0.1:{(server.state / 'agent_port').read_text().strip()}"


def folders(tmp_path: Path) -> list[str]:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    return ["first", "second"]


@pytest.mark.extended
def test_the_other_server_continues_running_and_waiting_jobs(
    pair: tuple[Server, Server, FailoverProxy],
) -> None:
    first, second, board = pair
    running = first.submit(code=COUNTING)
    first.wait(running, lambda job: job["phase"] == "training")
    waiting = second.submit(command="echo my turn")
    time.sleep(0.5)
    first.process.kill()
    first.process.wait()
    board.connect(listener(second))
    done = second.wait_ended(running, timeout_s=60)
    assert (done["status"], len(done["attempts"])) == ("completed", 1), "it was not started again"
    steps = second.ask("GET", f"/api/v1/training/{running}/metrics?name=loss&points=1000").json
    assert [point[0] for point in steps["series"][0]["points"]] == list(range(120))
    assert second.wait_ended(waiting, timeout_s=60)["status"] == "completed"


def test_a_shared_address_of_agents_that_is_no_url_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"server\.agent_shared_url = 'anygpu:7792' is not a URL"):
        Server(tmp_path, ANYGPU_SERVER__AGENT_SHARED_URL="anygpu:7792")


class ProxyWithoutServers(BaseHTTPRequestHandler):
    """Answers requests for a stream as a proxy does while no server runs, and the fourth one as the server."""

    answered = 0

    def do_GET(self) -> None:
        type(self).answered += 1
        is_ready = self.answered > 3 or not self.path.startswith("/stream")
        content = b'{"kind": "end", "after": 1}\n' if is_ready else b"<h1>502 Bad Gateway</h1>"
        self.send_response(200 if is_ready else 502)
        self.send_header("Content-Type", "application/x-ndjson" if is_ready else "text/html")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *values: object) -> None:
        return


@contextmanager
def serving_proxy() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), ProxyWithoutServers)
    ProxyWithoutServers.answered = 0
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@contextmanager
def silent_address() -> Iterator[str]:
    """Return a URL whose machine does not answer: the queue of its listener is full."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            with suppress(BlockingIOError):
                waiting.connect(listener.getsockname())
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def test_a_stream_continues_when_a_proxy_has_no_server_for_a_while() -> None:
    with serving_proxy() as url:
        connection = ServerConnection(FailoverLocator([url], "token"))
        assert [message["kind"] for message in MessageStream(connection, "/stream")] == ["end"]


def test_clients_do_not_wait_long_for_a_server_whose_machine_is_off() -> None:
    with serving_proxy() as proxy, silent_address() as silent:
        began = time.monotonic()
        answer = ServerConnection(FailoverLocator([silent, proxy], "token")).request("GET", "/")
        assert answer.status == 200
        assert time.monotonic() - began < 20, "the limit of a request is 30 s"
