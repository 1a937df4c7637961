"""A job that says its steps is predicted while it runs, and judged when it has completed."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from tests.acceptance.cli.conftest import Shell

SCRIPT = (
    "import time, anygpu",
    "for step in range(1, 301):",
    "    time.sleep(0.05)",
    "    anygpu.progress(step=step, steps=300)",
    "    anygpu.log(loss=1 / step, step=step)",
)


def soon(look: Callable[[], Any], within_s: float = 60.0) -> Any:
    """What `look` answers once it is something; a completed job's outcome is written a moment later."""
    end = time.monotonic() + within_s
    while not (found := look()) and time.monotonic() < end:
        time.sleep(0.1)
    return found


def judged_jobs(shell: Shell) -> list[dict[str, Any]]:
    state = Path(shell.environ["ANYGPU_STATE"])
    url = json.loads((state / "server.json").read_text())["url"]
    token = (state / "token").read_text().strip()
    found = Request(f"{url}/api/v1/accuracy/jobs", headers={"Authorization": f"Bearer {token}"})
    with urlopen(found, timeout=30) as answer:
        jobs: list[dict[str, Any]] = json.load(answer)["jobs"]
    return jobs


def first_steps(job: dict[str, Any]) -> dict[str, Any] | None:
    said = job["prediction"]
    return said if said and said["basis"] == "first steps" else None


@pytest.mark.extended
def test_a_job_is_predicted_from_its_first_steps_and_accuracy_counts_it(alone: Shell) -> None:
    alone("up", "-d")
    assert b"No predictions yet" in alone("accuracy").stdout
    alone.write("t.py", *SCRIPT)
    made = alone.json("run", "-d", "-n", "paced", "t.py")
    said = soon(lambda: first_steps(alone.json("show", made["id"])))
    assert said["wall_low_s"] <= said["wall_s"] <= said["wall_high_s"]
    shown = alone("show", "paced").stdout.decode()
    assert "from its first steps" in shown or "completed" in shown
    alone("logs", "-f", "paced")
    planned = [each for each in alone.json("events", "paced")["events"] if each["type"] == "JobPlanned"]
    assert 1 <= len(planned) <= 7
    judged = soon(lambda: alone.json("accuracy")["first_steps"]["jobs"])
    assert judged == 1
    (job,) = judged_jobs(alone)
    assert (job["name"], job["calibrated"]["basis"]) == ("paced", "first steps")
    assert job["actual"]["seconds"] > 10
    told = alone("accuracy").stdout.decode()
    assert "after its first steps" in told
    assert "IN INTERVAL" in told
