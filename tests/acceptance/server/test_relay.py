"""Jobs whose agents have no route to the server: everything goes through mailboxes in a directory."""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.server.real_server import Server
from tests.walk import paths_below

from anygpu.agent.link.mailbox import channel_names, encode_head, replace_file

NOWHERE = "http://127.0.0.1:1"  # the agents would get this address if they used no relay
COUNTING = (
    "import time\nfor i in range(60): print(f'step={i} loss={1 / (i + 1):.4f}', flush=True); time.sleep(0.05)"
)
SAVING = """
import anygpu
open('model.pt', 'wb').write(bytes(range(256)) * 20000)
anygpu.checkpoint('model.pt', step=3)
"""


def environment(folder: Path) -> dict[str, str]:
    return {
        "ANYGPU_RELAY__DIRECTORY": str(folder / "relay"),
        "ANYGPU_RELAY__POLL_S": "0.1",
        "ANYGPU_LOCAL__RELAY": "directory",
        "ANYGPU_SERVER__AGENT_URL": NOWHERE,
        "ANYGPU_AGENT__HEARTBEAT_S": "1000",  # an order for a silent job has to come by itself
        "ANYGPU_AGENT__TELEMETRY_EVERY_S": "1000",
    }


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("relay")
    server = Server(folder, **environment(folder))
    yield server
    server.cancel_everything()
    server.stop()


def mailbox_files(server: Server) -> dict[str, list[str]]:
    root = server.state.parent / "relay"
    files: dict[str, list[str]] = {}
    for path in paths_below(root):
        if path.parent != root:
            files.setdefault(path.parent.name, []).append(path.name)
    return files


def test_a_job_completes_and_its_reports_arrive_once(server: Server) -> None:
    job_id = server.submit(code=COUNTING)
    done = server.wait_ended(job_id)
    assert (done["status"], len(done["attempts"])) == ("completed", 1)
    series = server.ask("GET", f"/api/v1/training/{job_id}/metrics?name=loss&points=1000").json["series"]
    assert [point[0] for point in series[0]["points"]] == list(range(60))


def test_checkpoints_and_results_pass_through_the_directory(server: Server) -> None:
    job_id = server.submit(code=SAVING, outputs=["model.pt"])
    done = server.wait_ended(job_id)
    assert done["status"] == "completed", done
    content = server.ask("GET", f"/api/v1/training/{job_id}/artifacts/model.pt").data
    assert content == bytes(range(256)) * 20000
    assert len(server.ask("GET", f"/api/v1/training/{job_id}/checkpoints").json["checkpoints"]) == 1


def test_the_number_of_files_is_bounded(server: Server) -> None:
    job_id = server.submit(code=COUNTING)
    most = 0
    while server.job(job_id)["ended_at"] is None:
        most = max([most, *(len(names) for names in mailbox_files(server).values())])
        time.sleep(0.05)
    assert 0 < most <= 10 + 2, "five channels of two files, and at most two drafts"


def test_a_cancelled_job_ends_before_its_next_report(server: Server) -> None:
    job_id = server.submit(code="import time; time.sleep(600)")
    server.wait(job_id, lambda job: bool(job["telemetry"]))  # the last report for a long time
    server.ask("POST", f"/api/v1/training/{job_id}/cancel")
    assert server.wait_ended(job_id)["status"] == "cancelled"


def test_the_agent_got_no_address_of_the_server(server: Server) -> None:
    job_id = server.submit(code="print('done')")
    server.wait_ended(job_id)
    tickets = [json.loads(path.read_text()) for path in (server.state / "attempts").glob("*/ticket.json")]
    assert tickets
    assert all("url" not in ticket and ticket["relay"]["kind"] == "directory" for ticket in tickets)


def test_a_forged_message_is_refused_and_has_no_effect(server: Server) -> None:
    job_id = server.submit(code="import time; time.sleep(600)")
    server.wait(job_id, lambda job: job["phase"] == "training")
    name = server.job(job_id)["execution_id"]
    directory, (channel, *_) = (
        os.open(server.state.parent / "relay" / name, os.O_RDONLY),
        channel_names()[::-1],
    )
    body = b'{"outcome": "exited", "exit_code": 0}'
    head = {"id": "forged", "method": "POST", "path": "/agent/v1/end", "size": len(body)}
    headers = {"Authorization": f"Bearer {job_id}.1.abc.{'0' * 64}", "Content-Type": "application/json"}
    replace_file(directory, f"{channel}.request", [encode_head({**head, "headers": headers}), body])
    os.close(directory)
    answer = server.state.parent / "relay" / name / f"{channel}.answer"
    deadline = time.monotonic() + 60
    while not answer.exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert json.loads(answer.read_bytes().splitlines()[0])["status"] == 401
    assert server.job(job_id)["status"] == "running"
    server.ask("POST", f"/api/v1/training/{job_id}/cancel")
    server.wait_ended(job_id)
