"""Two projects share one processor: jobs are preempted for each other and lose no work."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.server.real_server import Server

LONG = """
import pathlib, sys, time, anygpu
books, total = pathlib.Path(sys.argv[1]), int(sys.argv[2])
state, resume = pathlib.Path("state.txt"), anygpu.resume_path()
start = int(pathlib.Path(resume).read_text()) if resume else 0
for step in range(start + 1, total + 1):
    time.sleep(0.05)
    with books.open("a") as book:
        book.write(f"{step}\\n")
    if step % 10 == 0 or anygpu.should_stop():
        state.write_text(str(step))
        anygpu.checkpoint(state, step=step)
    if anygpu.should_stop():
        sys.exit(0)
while len(sys.argv) > 3 and not pathlib.Path(sys.argv[3]).exists():
    time.sleep(0.05)
"""
QUICK_BANDS = {
    "ANYGPU_LOCAL__CPUS": "1",
    "ANYGPU_QUEUE__SHORT_GPU_HOURS": "0.0003",  # about a second
    "ANYGPU_QUEUE__RUNS_AT_LEAST_S": "1",
    "ANYGPU_CONTROL__SAFETY_NET_S": "0.5",
}


def events(server: Server, job_id: str, kind: str) -> list[dict[str, Any]]:
    found = server.ask("GET", f"/api/v1/training/{job_id}/events?limit=200").json
    return [each["data"] for each in found["events"] if each["type"] == kind]


def long_job(server: Server, books: Path, steps: int, *until: Path, **more: Any) -> str:
    """Submit a job of so many steps. It ends when the file `until` exists."""
    command = ["python", "-c", LONG, str(books), str(steps), *map(str, until)]
    job_id = server.submit(name="long", command=command, **more)
    server.wait(job_id, lambda job: job["phase"] == "training" and books.exists())
    return job_id


@pytest.fixture
def shared(new_server: Callable[..., Server]) -> Server:
    return new_server(**QUICK_BANDS)


@pytest.mark.extended
def test_a_long_job_is_preempted_for_another_project_and_resumes(shared: Server, tmp_path: Path) -> None:
    books = tmp_path / "books"
    long = long_job(shared, books, 240, checkpoint={"resume_args": ["{path}"]})
    speech = shared.new_token(role="member", name="speech", project="speech")
    asked = {"name": "short", "command": ["python", "-c", "print('hello')"]}
    answer = shared.ask("POST", "/api/v1/training", asked, token=speech)
    assert answer.status == 201, answer.data
    short = answer.json["id"]

    ended = shared.wait_ended(long, timeout_s=60)
    assert ended["status"] == "completed"
    (stop,) = events(shared, long, "StopRequested")
    assert (stop["reason"], stop["makes_room_for"]) == ("preempt", short)
    assert stop["message"].startswith("preempted by job short of project speech; resumes")
    (recovery,) = events(shared, long, "RecoveryStarted")
    assert recovery["counts"] is False
    assert recovery["resume"]["step"] > 0
    assert sorted(map(int, books.read_text().split())) == list(range(1, 241))
    assert shared.ask("GET", f"/api/v1/training/{short}", token=speech).json["status"] == "completed"


def test_jobs_of_one_project_run_in_order_of_submission(shared: Server, tmp_path: Path) -> None:
    go = tmp_path / "go"
    long = long_job(shared, tmp_path / "books", 20, go, checkpoint={"resume_args": ["{path}"]})
    names = ["second", "third"]
    others = [shared.submit(name=name, command=["python", "-c", "print('hello')"]) for name in names]
    waiting = shared.wait(long, lambda job: len(shared.ask("GET", "/api/v1/queue").json["jobs"]) == 2)
    assert waiting["status"] == "running"
    queue = shared.ask("GET", "/api/v1/queue").json["jobs"]
    assert [(job["name"], job["position"], job["band"]) for job in queue] == [
        ("second", 1, "short"),
        ("third", 2, "short"),
    ]
    go.touch()
    ends = [shared.wait_ended(job_id, timeout_s=60)["ended_at"] for job_id in (long, *others)]
    assert ends == sorted(ends)
    assert events(shared, long, "StopRequested") == []
