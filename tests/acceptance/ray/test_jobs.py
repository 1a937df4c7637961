"""A job with checkpoints on a real Ray cluster: interrupted in Ray's own ways, it resumes and completes."""

import json
import os
import signal
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from scripts.clusters.ray import RayCluster
from tests.acceptance.machines.cloud import BRISK, Server

pytestmark = [pytest.mark.extended, pytest.mark.timeout(240)]
STEPS, STEP_S = 60, 0.1
TRAINEE = (Path(__file__).parent.parent / "machines" / "trainee.py").read_text()


@pytest.fixture
def server(tmp_path: Path, cluster: RayCluster) -> Iterator[Server]:
    made = Server(tmp_path, backend_settings(tmp_path, cluster), **BRISK)
    yield made
    made.stop()


@pytest.fixture
def relayed_server(tmp_path: Path, cluster: RayCluster) -> Iterator[Server]:
    """A server that the agents reach only through a directory."""
    environment = {
        "ANYGPU_RELAY__DIRECTORY": str(tmp_path / "relay"),
        "ANYGPU_RELAY__POLL_S": "0.1",
        "ANYGPU_SERVER__AGENT_URL": "http://127.0.0.1:1",
    }
    settings = backend_settings(tmp_path, cluster, relay="directory")
    made = Server(tmp_path, settings, **BRISK, **environment)
    yield made
    made.stop()


def backend_settings(folder: Path, cluster: RayCluster, **options: str) -> str:
    """Return the section of the settings for the backend `lab`."""
    given = {
        "kind": "ray",
        "address": cluster.address,
        "directory": f"{folder}/attempts",
        "price_microusd_per_hour": "100000",
        **options,
    }
    return "\n".join(["[backends.lab]", *(f'{name} = "{value}"' for name, value in given.items()), ""])


def submit(server: Server, gpu: str | int = "T4") -> str:
    return server.submit(
        code=f"import sys; sys.argv = ['trainee', '{STEPS}', '{STEP_S}']\n{TRAINEE}",
        name="on-ray",
        python=sys.executable,
        resources={"gpu": gpu},
        checkpoint={"paths": ["state.txt"]},
    )


def ask_ray(cluster: RayCluster, method: str, path: str) -> Any:
    request = urllib.request.Request(f"{cluster.address}{path}", method=method)
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.load(answer)


def stop_by_an_admin(server: Server, cluster: RayCluster, name: str) -> None:
    ask_ray(cluster, "POST", f"/api/jobs/{name}/stop")


def kill_the_driver(server: Server, cluster: RayCluster, name: str) -> None:
    agent = json.loads((server.folder / "attempts" / name / "agent.json").read_text())
    os.kill(agent["pid"], signal.SIGKILL)


def kill_the_supervisor(server: Server, cluster: RayCluster, name: str) -> None:
    """Kill Ray's process that started the agent, as if its node had run out of memory."""
    agent = json.loads((server.folder / "attempts" / name / "agent.json").read_text())
    os.kill(int(Path(f"/proc/{agent['pid']}/stat").read_text().rpartition(")")[2].split()[1]), signal.SIGKILL)


@pytest.mark.parametrize("interrupt", [stop_by_an_admin, kill_the_driver, kill_the_supervisor])
def test_an_interrupted_job_resumes_and_completes(
    server: Server, cluster: RayCluster, interrupt: Callable[[Server, RayCluster, str], None]
) -> None:
    interrupt_and_wait(server, cluster, interrupt)


def test_a_job_that_uses_the_relay_resumes_and_leaves_no_mailbox(
    relayed_server: Server, cluster: RayCluster
) -> None:
    job = interrupt_and_wait(relayed_server, cluster, kill_the_driver)
    assert "done" in relayed_server.anygpu("logs", job)
    wait_until(lambda: not any((relayed_server.folder / "relay").iterdir()))


def interrupt_and_wait(
    server: Server, cluster: RayCluster, interrupt: Callable[[Server, RayCluster, str], None]
) -> str:
    """Interrupt a job after its second checkpoint. It must resume and complete, and leave nothing. Return the job."""
    job = submit(server)
    running = server.until(job, lambda found: (found["checkpoint"] or {"step": 0})["step"] >= 20, within_s=60)
    name = running["attempts"][0]["name"]
    assert running["place"]["gpu"] == "T4"
    interrupt(server, cluster, name)
    ended = server.wait(job, "completed", "failed", within_s=120)
    assert (ended["status"], len(ended["attempts"])) == ("completed", 2), ended["failure"]
    resumed = [event["data"] for event in server.events(job) if event["type"] == "AttemptLaunching"][1]
    assert resumed["resume"]["step"] >= 20
    wait_until(lambda: not list_records(cluster, name.rpartition("-")[0]))
    wait_until(lambda: not any((server.folder / "attempts").iterdir()))
    return job


def list_records(cluster: RayCluster, prefix: str) -> list[str]:
    """Return which jobs Ray has whose names begin with `prefix`. Other tests use the same cluster."""
    names = [str(record["submission_id"]) for record in ask_ray(cluster, "GET", "/api/jobs/")]
    return [name for name in names if name.startswith(prefix)]


def wait_until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < end, "something is left"
        time.sleep(0.1)
