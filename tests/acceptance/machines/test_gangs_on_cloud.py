"""A job on several rented machines: all are created or none, each is billed, and all end together."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.machines.cloud import Cloud, Server
from tests.acceptance.machines.host_group import PROGRAM

pytestmark = [pytest.mark.timeout(150), pytest.mark.extended]


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[Cloud]:
    made = Cloud(tmp_path, "--boot", "0.5s", "--ssh-port", "2322")
    yield made
    made.stop()


@pytest.fixture
def server(tmp_path: Path, cloud: Cloud) -> Iterator[Server]:
    settings = cloud.settings(ec2={"regions": ["us-east-1"], "max_machines": 3}, runpod={})
    made = Server(tmp_path, settings, ANYGPU_CONTROL__PAID_ATTEMPTS="4", ANYGPU_CONTROL__SAFETY_NET_S="0.5")
    yield made
    made.stop()


def submit(server: Server, folder: Path, nodes: int, *, steps: int = 10) -> str:
    return server.submit(
        code=PROGRAM.replace("sys.argv[1], int(sys.argv[2])", f"{str(folder)!r}, {steps}"),
        python=sys.executable,
        resources={"nodes": nodes},
        placement={"paid": True, "interruptible": "no", "allowed": ["ec2"]},
    )


def test_two_rented_machines_run_one_job_and_both_are_billed(
    cloud: Cloud, server: Server, tmp_path: Path
) -> None:
    (tmp_path / "go").touch()
    job_id = submit(server, tmp_path, 2)
    job = server.wait(job_id, "completed", "failed", within_s=90)
    assert job["status"] == "completed", job["failure"]
    bills = cloud.of(job_id)
    assert sorted("-n1-" in bill["name"] for bill in bills) == [False, True]
    assert job["cost_microusd"] == sum(bill["billed_microusd"] for bill in bills)
    wait_for_no_machine(cloud)


def test_a_machine_that_disappears_stops_all_and_all_resume(
    cloud: Cloud, server: Server, tmp_path: Path
) -> None:
    job_id = submit(server, tmp_path, 2, steps=20)
    server.until(job_id, lambda job: (job["checkpoint"] or {}).get("step", 0) >= 5, 60)
    victim = next(each for each in cloud.running() if "-n1-" in each["name"])
    cloud.ask(f"preempt/{victim['id']}", {"notice_s": 0})
    wait_for(tmp_path / "2-1.pid")
    (tmp_path / "go").touch()
    job = server.wait(job_id, "completed", "failed", within_s=90)
    assert job["status"] == "completed", job["failure"]
    assert len(job["attempts"]) == 2
    bills = cloud.of(job_id)
    assert len(bills) == 4
    assert job["cost_microusd"] == sum(bill["billed_microusd"] for bill in bills)
    wait_for_no_machine(cloud)


def test_a_gang_for_which_a_machine_is_missing_rents_nothing_and_says_why(
    cloud: Cloud, server: Server, tmp_path: Path
) -> None:
    first = submit(server, tmp_path, 2)
    wait_for(tmp_path / "1-1.pid")
    second = submit(server, tmp_path, 2)
    job: dict[str, Any] = server.until(second, lambda job: bool(job["reason"]), 30)
    assert "1 of the 2 machines that the job needs are free" in job["reason"]
    assert cloud.of(second) == []
    (tmp_path / "go").touch()
    for job_id in (first, second):
        server.wait(job_id, "completed", within_s=90)
    wait_for_no_machine(cloud)


def wait_for(path: Path) -> None:
    end = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < end, f"{path} does not exist"
        time.sleep(0.05)


def wait_for_no_machine(cloud: Cloud) -> None:
    end = time.monotonic() + 30
    while cloud.running():
        assert time.monotonic() < end, cloud.running()
        time.sleep(0.1)
