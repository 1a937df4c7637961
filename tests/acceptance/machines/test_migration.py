"""A job on a dear machine: a cheaper one can be had, it saves, stops and goes on there, and the bill is smaller."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.machines.cloud import Cloud, Server, at_ec2

STEPS, STEP_S = 320, 0.5
DEAR = "p5.48xlarge"  # at this price a few minutes are worth a move
SCRIPT = f"""
import time
from pathlib import Path
import anygpu

resume = anygpu.resume_path()
start = int(Path(resume).read_text()) if resume else 0
state = Path("state.txt")
for step in range(start + 1, {STEPS} + 1):
    time.sleep(0.02 if resume else {STEP_S})  # what is left after the move is not waited for
    anygpu.log({{"value": float(step)}}, step=step)
    anygpu.progress(step=step, steps={STEPS})
    stopping = anygpu.should_stop()
    if step % 10 == 0 or stopping:
        state.write_text(str(step))
        anygpu.checkpoint(state, step=step)
    if stopping:
        raise SystemExit(0)
print("done", flush=True)
"""


@pytest.fixture
def rented(tmp_path: Path) -> Iterator[tuple[Cloud, Server]]:
    with at_ec2(tmp_path, ssh_port=2324) as both:
        yield both


@pytest.mark.slow
@pytest.mark.timeout(420)
@pytest.mark.extended
def test_it_goes_on_where_it_is_cheaper_and_the_books_agree(rented: tuple[Cloud, Server]) -> None:
    cloud, server = rented
    refused = cloud.fault("no_capacity", spot=True)
    job_id = server.submit(
        code=SCRIPT,
        name="vision",
        python=sys.executable,
        resources={"gpu": "H100:8"},
        checkpoint={"paths": ["state.txt"], "every": "5s"},
        placement={"instance_type": DEAR, "move": "act"},
    )
    server.until(job_id, lambda job: job["phase"] == "training", within_s=90)
    cloud.lift(refused)
    done = server.wait(job_id, "completed", "failed", within_s=300)
    assert done["status"] == "completed", done["failure"]
    *_, firm, spot = done["attempts"]
    assert [firm["interruptible"], spot["interruptible"]] == [False, True]
    assert spot["resume_step"] > 0
    assert done["metrics"]["value"] == STEPS
    assert done["retries_used"] == 0
    told = {event["type"]: event["data"] for event in server.events(job_id)}
    assert told["StopRequested"]["reason"] == "cheaper"
    assert told["BetterPlaceFound"]["better"]["offer"]["interruptible"]
    billed = [entry["billed_microusd"] for entry in cloud.of(job_id)]
    assert done["cost_microusd"] == sum(billed) > 0
