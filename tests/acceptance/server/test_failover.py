"""Two servers on one PostgreSQL: when the leader is killed, the other continues its jobs."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.server.real_server import Server
from tests.contracts.store.conftest import postgres_url  # noqa: F401 - a fixture

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
