"""A job with a deadline starts on spot, is taken back, finds no spot any more, and is done on demand in time."""

import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
from tests.acceptance.machines.cloud import Cloud, Server, at_ec2

STEPS, STEP_S = 40, 0.5
SAID_S, DEADLINE_S = 60, 350
PATIENT = {"ANYGPU_CONTROL__CLAIM_LIMIT_S": "45", "ANYGPU_CONTROL__SPOT_TICK_S": "30"}
TRAINEE = Path(__file__).with_name("trainee.py").read_text()


@pytest.fixture
def rented(tmp_path: Path) -> Iterator[tuple[Cloud, Server]]:
    with at_ec2(tmp_path, ssh_port=2323, **PATIENT) as both:
        yield both


@pytest.mark.extended
@pytest.mark.slow
@pytest.mark.timeout(420)
def test_taken_back_on_spot_it_is_done_on_demand_before_its_deadline(rented: tuple[Cloud, Server]) -> None:
    cloud, server = rented
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
