"""Two servers on one PostgreSQL: agents, SSH tunnels and the control loop continue at the other server."""

import asyncio
import json
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.acceptance.server.real_server import Server
from tests.acceptance.server.test_failover import listener
from tests.contracts.agent.test_old_agent import OLD_AGENT, USE_OLD_AGENT
from tests.contracts.store.conftest import postgres_url  # noqa: F401 - a fixture
from tests.contracts.store.test_move import target  # noqa: F401 - a fixture

from anygpu.testing.servers.failover_proxy import FailoverProxy
from anygpu.testing.servers.ssh_host import BEST_SERVER, open_ssh_host

NewPair = Callable[..., tuple[Server, Server]]
STEPS = 300
LINE = "step={i} loss={1 / (i + 1):.4f}"
COUNTING = f"import time\nfor i in range({STEPS}): print(f'{LINE}', flush=True); time.sleep(0.05)"
LIMIT_S = 120.0
pytestmark = [pytest.mark.extended, pytest.mark.timeout(600)]


@pytest.fixture
def new_pair(target: str, tmp_path: Path) -> Iterator[NewPair]:  # noqa: F811
    """new_pair(**settings) -> two servers; the first one leads."""
    with ExitStack() as stack:

        def build(**settings: str) -> tuple[Server, Server]:
            common = {
                "ANYGPU_STORE__DATABASE": target,
                "ANYGPU_STORE__BLOBS": (tmp_path / "blobs").as_uri(),
                "ANYGPU_SERVER__SIGNING_KEY": str(tmp_path / "signing.key"),
                "ANYGPU_LOCAL__ATTEMPTS": str(tmp_path / "attempts"),
                "ANYGPU_CONTROL__POLL_EVENTS_S": "0.1",
                **settings,
            }
            made = []
            for name in ("first", "second"):
                (tmp_path / name).mkdir()
                made.append(Server(tmp_path / name, **common))
                stack.callback(made[-1].stop)
            stack.callback(made[1].cancel_everything)
            return made[0], made[1]

        yield build


def wait_for_training(server: Server, job_id: str) -> None:
    server.wait(job_id, lambda job: job["phase"] == "training", LIMIT_S)


def wait_for_list(*servers: Server) -> None:
    """Wait until every agent knows the addresses of all servers."""
    attempts = Path(servers[0]._environment["ANYGPU_LOCAL__ATTEMPTS"])
    wanted = {server.agent_url for server in servers}
    until = time.monotonic() + LIMIT_S
    for folder in attempts.glob("anygpu-*"):
        while wanted - known_urls(folder):
            assert time.monotonic() < until, f"{folder} knows only {known_urls(folder)}"
            time.sleep(0.05)


def known_urls(folder: Path) -> set[str]:
    try:
        return set(json.loads((folder / "servers.json").read_text())["urls"])
    except FileNotFoundError:
        return set()


def kill(server: Server) -> None:
    server.process.kill()
    server.process.wait()


def assert_complete(server: Server, job_id: str) -> None:
    """Every line and every point of COUNTING has arrived once, from one attempt."""
    done = server.wait_ended(job_id, timeout_s=LIMIT_S)
    assert (done["status"], len(done["attempts"])) == ("completed", 1), done
    expected = "".join(f"step={i} loss={1 / (i + 1):.4f}\n" for i in range(STEPS)).encode()
    assert server.ask("GET", f"/api/v1/training/{job_id}/logs").data == expected
    answer = server.ask("GET", f"/api/v1/training/{job_id}/metrics?name=loss&points=1000").json
    assert [point[0] for point in answer["series"][0]["points"]] == list(range(STEPS))


def test_agents_find_the_other_server_without_a_proxy(new_pair: NewPair) -> None:
    first, second = new_pair(ANYGPU_CONTROL__LEADER_TTL_S="2")
    jobs = [first.submit(code=COUNTING) for _ in range(2)]
    for job_id in jobs:
        wait_for_training(first, job_id)
        wait_for_list(first, second)
    kill(first)
    for job_id in jobs:
        assert_complete(second, job_id)


def test_agents_find_a_server_that_has_replaced_all_others_at_once(new_pair: NewPair, tmp_path: Path) -> None:
    """As in a cluster, the new server has another address, and a shared address leads to it."""
    with FailoverProxy() as service, ExitStack() as stack:
        old = new_pair(ANYGPU_CONTROL__LEADER_TTL_S="2", ANYGPU_SERVER__AGENT_SHARED_URL=service.url)
        job_id = old[0].submit(code=COUNTING)
        wait_for_training(old[0], job_id)
        wait_for_list(*old)
        for server in old:
            kill(server)
            server.stop()
        (tmp_path / "new").mkdir()
        common = {name: value for name, value in old[0]._environment.items() if name.startswith("ANYGPU_")}
        new = Server(tmp_path / "new", **common)
        stack.callback(new.stop)
        stack.callback(new.cancel_everything)
        assert new.agent_url not in {server.agent_url for server in old}
        service.connect(listener(new))
        assert_complete(new, job_id)
        old[1].start()


def test_a_leader_that_stops_hands_over_at_once(new_pair: NewPair) -> None:
    """The lease would last an hour."""
    first, second = new_pair(ANYGPU_CONTROL__LEADER_TTL_S="3600", ANYGPU_LOCAL__CPUS="1")
    running = first.submit(code=COUNTING)
    wait_for_training(first, running)
    wait_for_list(first, second)
    waiting = second.submit(command="echo my turn")
    assert first.stop() == 0
    assert_complete(second, running)
    assert second.wait_ended(waiting, timeout_s=LIMIT_S)["status"] == "completed"


def test_an_old_agent_works_through_both_servers(new_pair: NewPair, tmp_path: Path) -> None:
    """An old agent knows one address, that of a proxy. The servers are upgraded one after the other meanwhile."""
    (tmp_path / "sitecustomize.py").write_text(USE_OLD_AGENT)
    with FailoverProxy() as board:
        first, second = new_pair(
            PYTHONPATH=str(tmp_path),
            XDG_CACHE_HOME=str(tmp_path / ".cache"),
            ANYGPU_SERVER__AGENT_URL=board.url,
        )
        board.connect(listener(first))
        job_id = first.submit(code=COUNTING, python=sys.executable)
        wait_for_training(first, job_id)
        first.process.send_signal(signal.SIGTERM)
        board.connect(listener(second))
        first.stop(LIMIT_S)
        first.start()
        first.wait(job_id, lambda job: (job["progress"] or {}).get("step", 0) > 20, LIMIT_S)
        second.stop()
        board.connect(listener(first))
        assert_complete(first, job_id)
        second.start()
    assert list((tmp_path / ".cache" / "anygpu" / "agent").glob("*/anygpu/agent/box.py")), OLD_AGENT


async def test_the_server_that_takes_over_opens_its_own_tunnel(new_pair: NewPair, tmp_path: Path) -> None:
    async with open_ssh_host(BEST_SERVER, tmp_path / "box") as box:
        first, second = await asyncio.to_thread(new_pair, ANYGPU_CONTROL__LEADER_TTL_S="2")
        await asyncio.to_thread(_kill_while_a_job_runs_on_the_host, first, second, box.login())


def _kill_while_a_job_runs_on_the_host(first: Server, second: Server, login: object) -> None:
    user, port, key = (getattr(login, name) for name in ("user", "port", "private_key"))
    added = first.ask(
        "POST",
        "/api/v1/backends",
        {
            "name": "lab",
            "kind": "ssh",
            "options": {"host": f"{user}@127.0.0.1:{port}"},
            "credentials": {"private_key": key},
        },
    )
    assert added.status == 201, added.data
    job_id = first.submit(code=COUNTING, placement={"allowed": ["lab"]})
    wait_for_training(first, job_id)
    kill(first)
    assert_complete(second, job_id)
    assert second.job(job_id)["attempts"][0]["backend"] == "lab"
