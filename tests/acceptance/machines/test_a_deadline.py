"""A job with a deadline starts on spot, is taken back, finds no spot any more, and is done on demand in time."""

import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
from tests.acceptance.machines.cloud import Cloud, Server

STEPS, STEP_S = 40, 0.5
SAID_S, DEADLINE_S = 60, 350
TRAINEE = Path(__file__).with_name("trainee.py").read_text()
BRISK = {
    "ANYGPU_CONTROL__SAFETY_NET_S": "0.5",
    "ANYGPU_CONTROL__LEADER_TTL_S": "2",
    "ANYGPU_CONTROL__CLAIM_LIMIT_S": "45",
    "ANYGPU_CONTROL__SPOT_TICK_S": "30",
    "ANYGPU_CONTROL__STOP_ALLOWANCE_S": "10",
    "ANYGPU_AGENT__LEASE_S": "10",
    "ANYGPU_AGENT__CANCEL_GRACE_S": "2",
}


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[Cloud]:
    made = Cloud(tmp_path, "--boot", "1s", "--ssh-port", "2323")
    yield made
    made.stop()


@pytest.fixture
def server(tmp_path: Path, cloud: Cloud) -> Iterator[Server]:
    made = Server(tmp_path, cloud.settings(ec2={"regions": ["us-east-1"]}), **BRISK)
    yield made
    made.stop()


@pytest.mark.slow
@pytest.mark.timeout(420)
def test_taken_back_on_spot_it_is_done_on_demand_before_its_deadline(cloud: Cloud, server: Server) -> None:
    job_id = server.submit(
        code=f"import sys; sys.argv = ['trainee', '{STEPS}', '{STEP_S}']\n{TRAINEE}",
        python=sys.executable,
        checkpoint={"paths": ["state.txt"], "every": "5s"},
        limits={"deadline": f"{DEADLINE_S}s"},
        placement={"expected_duration": f"{SAID_S}s", "instance_type": "c7i.large"},
    )
    server.until(job_id, lambda job: job["checkpoint"] is not None, within_s=90)
    cloud.fault("no_capacity", spot=True)
    (machine,) = cloud.running()
    cloud.ask(f"preempt/{machine['id']}", {"notice_s": 0})
    done = server.wait(job_id, "completed", "failed", within_s=DEADLINE_S)
    assert done["status"] == "completed", done["failure"]
    spot, *refused, firm = done["attempts"]
    assert [spot["interruptible"], firm["interruptible"]] == [True, False]
    assert all(attempt["interruptible"] for attempt in refused)
    events = server.events(job_id)
    assert seconds(events[-1]["at"]) - seconds(events[0]["at"]) < DEADLINE_S
    waited = [event["data"]["reason"] for event in events if event["type"] == "JobWaited"]
    assert any(reason.endswith("at the latest; then on-demand") for reason in waited), waited
    assert firm["resume_step"] > 0


def seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()
