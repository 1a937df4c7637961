"""Twenty jobs on machines that are taken back, cut off, and lose their server: all finish, all bills agree."""

import os
import random
import statistics
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.machines.cloud import Cloud, Server

JOBS, STEPS, STEP_S = 20, 60, 0.05
BOOT_S = 1.0
SEED = int(os.environ.get("MACHINES_SEED", "5"))
TRAINEE = Path(__file__).with_name("trainee.py").read_text()
PREEMPTIONS, CUTS, SERVER_KILLS = 14, 5, 2
LIMIT_S = 240


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[Cloud]:
    made = Cloud(tmp_path, "--boot", f"{BOOT_S}s", "--ssh-port", "2322")
    yield made
    made.stop()


@pytest.fixture
def server(tmp_path: Path, cloud: Cloud) -> Iterator[Server]:
    settings = cloud.settings(
        ec2={"regions": ["us-east-1", "us-west-2"], "meter": "cost-explorer", "meter_after_h": 0},
        runpod={},
    )
    made = Server(tmp_path, settings, ANYGPU_CONTROL__PAID_ATTEMPTS="4")
    yield made
    made.stop()


def submit(server: Server, number: int, gate: Path) -> str:
    return server.submit(
        code=f"import sys; sys.argv = ['trainee', '{STEPS}', '{STEP_S}', {str(gate)!r}]\n{TRAINEE}",
        name=f"job-{number}",
        python=sys.executable,
        checkpoint={"paths": ["state.txt"]},
        placement={"paid": True},
    )


@pytest.mark.extended
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_twenty_jobs_finish_and_every_bill_agrees(cloud: Cloud, server: Server, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    jobs = [submit(server, number, gate) for number in range(JOBS)]
    struck = havoc(cloud, server, jobs, random.Random(SEED))
    gate.touch()
    ended = [server.wait(job, "completed", "failed", "cancelled", within_s=LIMIT_S) for job in jobs]
    assert [job["status"] for job in ended] == ["completed"] * JOBS, [job["failure"] for job in ended]
    assert struck == {"preempt": PREEMPTIONS, "cut": CUTS, "kill": SERVER_KILLS}
    assert whole_curves(server, jobs)
    assert_no_machine_is_left(cloud)
    assert_bills_agree(cloud, ended)
    shares = control_shares(cloud, server, jobs)
    print(f"control plane's share after {len(shares)} preemptions: median {statistics.median(shares):.2f} s")
    assert len(shares) >= 3


def havoc(cloud: Cloud, server: Server, jobs: list[str], chance: random.Random) -> dict[str, int]:
    """Something happens to a random machine, or to the server, about every second and a half."""
    wanted = ["preempt"] * PREEMPTIONS + ["cut"] * CUTS + ["kill"] * SERVER_KILLS
    chance.shuffle(wanted)
    done = dict.fromkeys(("preempt", "cut", "kill"), 0)
    end = time.monotonic() + LIMIT_S
    while wanted and time.monotonic() < end:
        time.sleep(chance.uniform(0.5, 2))
        if happened(cloud, server, wanted[-1], chance):
            done[wanted.pop()] += 1
    return done


def happened(cloud: Cloud, server: Server, what: str, chance: random.Random) -> bool:
    if what == "kill":
        server.kill()
        time.sleep(chance.uniform(0, 2))
        server.start()
        return True
    machines = [each for each in cloud.running() if each["taken_at_ms"] is None]
    spot = [each for each in machines if each["spot"]]
    if not (spot if what == "preempt" else machines):
        return False
    if what == "preempt":
        cloud.ask(f"preempt/{chance.choice(spot)['id']}", {"notice_s": chance.choice([0, 0, 3, 8])})
    else:
        cloud.ask(f"cut/{chance.choice(machines)['id']}", {"seconds": chance.uniform(1, 4)})
    return True


def whole_curves(server: Server, jobs: list[str]) -> bool:
    """Every step of every job was measured by some attempt."""
    for job in jobs:
        steps: set[int] = set()
        for attempt in range(1, server.job(job)["attempt"] + 1):
            found = server.ask("GET", f"training/{job}/metrics?attempt={attempt}&points=1000")
            steps |= {int(point[0]) for series in found["series"] for point in series["points"]}
        assert steps >= set(range(1, STEPS + 1)), f"{job} lacks {sorted(set(range(1, STEPS + 1)) - steps)}"
    return True


def assert_no_machine_is_left(cloud: Cloud) -> None:
    assert [entry for entry in cloud.ask("books") if entry["ended_at_ms"] is None] == []


def assert_bills_agree(cloud: Cloud, ended: list[dict[str, Any]]) -> None:
    """Attempt by attempt, against the simulator's own books."""
    metered: dict[str, int] = {}
    for entry in cloud.ask("books"):
        name = "-".join(entry["name"].split("-")[:3])
        metered[name] = metered.get(name, 0) + entry["billed_microusd"]
    ledger = {a["name"]: a["cost_microusd"] for job in ended for a in job["attempts"] if a["cost_microusd"]}
    assert ledger == {name: cost for name, cost in metered.items() if cost}


def milliseconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp() * 1000


def control_shares(cloud: Cloud, server: Server, jobs: list[str]) -> list[float]:
    """From a machine's being taken without notice to training again, less the boot delay."""
    taken = {
        "-".join(each["name"].split("-")[:3]): each["taken_at_ms"]
        for each in cloud.ask("instances")
        if each["taken_at_ms"] is not None and each["taken_at_ms"] == each["notice_at_ms"]
    }
    shares = []
    for job in jobs:
        started = {
            event["data"]["attempt"]: milliseconds(event["at"])
            for event in server.events(job)
            if event["type"] == "TrainingStarted"
        }
        for attempt in server.job(job)["attempts"]:
            if attempt["name"] in taken and attempt["number"] + 1 in started:
                gone_ms = started[attempt["number"] + 1] - taken[attempt["name"]]
                shares.append(gone_ms / 1000 - BOOT_S)
    return shares
