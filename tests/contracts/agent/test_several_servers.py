"""An agent whose server fails uses another address. Two proxies in front of one server are two servers here."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from tests.contracts.agent.agent_process import Agent
from tests.contracts.agent.tunnel import Tunnel

Play = Callable[..., Agent]
Serve = Callable[[Agent], list[Tunnel]]

COUNTING = "import time\nfor i in range(300):\n    print(i, flush=True)\n    time.sleep(0.004)\n"
COUNTED = "".join(f"{i}\n" for i in range(300)).encode()


@pytest.fixture
def serve() -> Iterator[Serve]:
    """serve(agent) -> two addresses of its server, which the agent's ticket names."""
    opened: list[Tunnel] = []

    def build(agent: Agent) -> list[Tunnel]:
        opened.extend(Tunnel(agent.server.port) for _ in range(2))
        urls = [each.url for each in opened]
        change_ticket(agent, url=urls[0], urls=urls)
        return opened

    yield build
    for each in opened:
        each.cut()


def change_ticket(agent: Agent, **fields: object) -> None:
    path = agent.directory / "ticket.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def kept_urls(agent: Agent) -> list[str]:
    found: list[str] = json.loads((agent.directory / "servers.json").read_text())["urls"]
    return found


def test_reports_continue_at_another_server(play: Play, serve: Serve) -> None:
    agent = play({"code": COUNTING})
    first, _ = serve(agent)
    agent.start()
    agent.server.wait_for(lambda: len(agent.server.log) > 50)
    first.cut()
    assert agent.finish() == 0
    assert bytes(agent.server.log) == COUNTED
    assert agent.server.end is not None
    assert agent.server.end["log_bytes"] == len(COUNTED)


def test_the_first_server_may_be_dead_from_the_start(play: Play, serve: Serve) -> None:
    agent = play({"shell": "echo hello"})
    first, _ = serve(agent)
    first.cut()
    assert agent.run() == 0
    assert bytes(agent.server.log) == b"hello\n"


def test_a_server_that_came_later_is_learned_from_answers(play: Play, serve: Serve) -> None:
    agent = play({"code": COUNTING})
    first, second = serve(agent)
    change_ticket(agent, urls=[first.url])
    listed = agent.server.urls = [second.url, first.url]
    agent.start()
    agent.server.wait_for(lambda: len(agent.server.log) > 50)
    first.cut()
    assert agent.finish() == 0
    assert bytes(agent.server.log) == COUNTED
    assert kept_urls(agent) == listed


@pytest.mark.extended
def test_many_reports_arrive_over_a_slow_connection(play: Play, serve: Serve) -> None:
    code = "for i in range(1500): print('x' * 999, flush=True)"
    agent = play({"code": code}, lease_s=20)  # so an answer must come within five seconds
    for each in serve(agent):
        each.pause_s = 0.3
    agent.start()
    assert agent.finish(120) == 0
    assert bytes(agent.server.log) == (b"x" * 999 + b"\n") * 1500


def test_a_server_that_hangs_is_left(play: Play, serve: Serve) -> None:
    agent = play({"code": COUNTING}, lease_s=8)
    first, _ = serve(agent)
    agent.start()
    agent.server.wait_for(lambda: len(agent.server.log) > 50)
    first.silent = True
    assert agent.finish() == 0
    assert bytes(agent.server.log) == COUNTED


@pytest.fixture
def refusing() -> Iterator[Callable[[int], str]]:
    """refusing(status) -> the address of a server that answers every request with this status."""
    opened: list[ThreadingHTTPServer] = []

    def build(status: int) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(status)
                self.send_header("Retry-After", "30")
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_GET = do_PUT = do_POST

            def log_message(self, format: str, *args: object) -> None:
                return

        opened.append(ThreadingHTTPServer(("127.0.0.1", 0), Handler))
        threading.Thread(target=opened[-1].serve_forever, args=(0.02,), daemon=True).start()
        return f"http://127.0.0.1:{opened[-1].server_port}"

    yield build
    for each in opened:
        each.shutdown()
        each.server_close()


@pytest.mark.parametrize("status", [503, 502, 401, 404])
def test_a_server_that_refuses_is_left_at_once(
    play: Play, refusing: Callable[[int], str], status: int
) -> None:
    """503: it stops now. 401: another program has its address, or its key is wrong."""
    agent = play({"shell": "echo hello"})
    change_ticket(agent, urls=[refusing(status), agent.server.url])
    began = time.monotonic()
    assert agent.run() == 0
    assert bytes(agent.server.log) == b"hello\n"
    assert time.monotonic() - began < 28, "it waited 30 s, as the server asked"


def test_an_agent_that_no_server_knows_stops(play: Play, refusing: Callable[[int], str]) -> None:
    agent = play({"shell": "sleep 1000"})
    change_ticket(agent, urls=[agent.server.url, refusing(401)])
    agent.start()
    agent.server.wait_for(lambda: bool(agent.server.of_kind("phase")))
    agent.server.rejecting = 404
    assert agent.finish() == 77


def test_reports_of_a_dead_agent_go_to_a_server_that_it_knew(play: Play, serve: Serve) -> None:
    agent = play({"shell": "echo before; sleep 1000"})
    first, second = serve(agent)
    change_ticket(agent, urls=[first.url])
    agent.server.urls = [first.url, second.url]
    process = agent.start()
    agent.server.wait_for(lambda: b"before" in agent.server.log)
    until = time.monotonic() + 60
    while not (agent.directory / "servers.json").exists():
        assert time.monotonic() < until
        time.sleep(0.01)
    process.kill()
    process.wait()
    first.cut()
    assert agent.run("--deliver") == 0
    assert agent.server.end is not None
    assert agent.server.end["outcome"] == "agent_lost"


def test_files_go_to_a_server_that_lives(play: Play, serve: Serve) -> None:
    """The URLs of uploads name the server that gave them, but every server takes the files."""
    code = (
        "import anygpu\nopen('m.pt', 'wb').write(b'm' * 100000)\nanygpu.checkpoint('m.pt', step=7, wait=True)"
    )
    agent = play({"argv": ["python", "-c", code]})
    first, _ = serve(agent)
    agent.server.upload_base = first.url

    def die(path: str, count: int) -> str | None:
        if path.startswith("/blob/") and count == 1:
            first.cut()
        return None

    agent.server.fault = die
    assert agent.run() == 0
    assert agent.server.committed
