"""Resuming an ended job: from the newest intact checkpoint, or from the one that was chosen."""

from typing import Any
from uuid import uuid4

import pytest
from tests.acceptance.server.real_server import Answer, Server

SAVES = """
import anygpu, os, pathlib, sys
path = anygpu.resume_path()
start = int(pathlib.Path(path).read_text().split()[0]) if path else 0
print("from", start, flush=True)
for step in range(start + 1, int(os.environ["STEPS"]) + 1):
    pathlib.Path("state.txt").write_text(f"{step} {os.environ['MARK']}")
    anygpu.checkpoint("state.txt", step=step, wait=True)
sys.exit(0 if start else 3)
"""


@pytest.fixture
def ended(server: Server) -> dict[str, Any]:
    """A job that has failed and has the checkpoints 1, 2 and 3."""
    env = {"STEPS": "3", "MARK": uuid4().hex}
    job = server.wait_ended(server.submit(code=SAVES, env=env))
    assert (job["status"], job["checkpoint"]["step"]) == ("failed", 3)
    return job


def damage(server: Server, job: dict[str, Any], step: int) -> None:
    content = f"{step} {job['spec']['env']['MARK']}".encode()
    chunks = [
        path
        for path in server.state.rglob("*")
        if path.is_file() and path.stat().st_size == len(content) and path.read_bytes() == content
    ]
    assert chunks
    for path in chunks:
        path.chmod(0o600)
        path.write_bytes(b"x" * len(content))


def resume(server: Server, job: dict[str, Any], **body: Any) -> Answer:
    env = {**job["spec"]["env"], "STEPS": "5"}
    return server.ask("POST", f"/api/v1/training/{job['id']}/resume", {"env": env, **body})


def started_from(server: Server, answer: Answer) -> str:
    assert answer.status == 201, answer.data
    job = server.wait_ended(answer.json["id"])
    assert job["status"] == "completed", job["failure"]
    log = server.ask("GET", f"/api/v1/training/{job['id']}/logs").data.decode()
    assert job["resume"]["state"] == "verified", job["resume"]
    return next(line for line in log.splitlines() if line.startswith("from"))


def test_a_damaged_newest_checkpoint_is_passed_over(server: Server, ended: dict[str, Any]) -> None:
    damage(server, ended, 3)
    answer = resume(server, ended)
    assert started_from(server, answer) == "from 2"
    found = server.ask("GET", f"/api/v1/training/{answer.json['id']}/events?limit=100").json["events"]
    (rejected,) = [event["data"] for event in found if event["type"] == "CheckpointRejected"]
    assert rejected["step"] == 3


@pytest.mark.parametrize(
    "choice", [{"resume_from": 2}, {"resume_from": "2"}, {"checkpoint": 2}, {"resume_from": "{id}@2"}]
)
def test_a_checkpoint_can_be_chosen_by_its_step(
    server: Server, ended: dict[str, Any], choice: dict[str, Any]
) -> None:
    body = {
        name: value.format(id=ended["id"]) if isinstance(value, str) else value
        for name, value in choice.items()
    }
    assert started_from(server, resume(server, ended, **body)) == "from 2"


def test_a_chosen_checkpoint_that_is_damaged_is_refused_with_the_intact_ones(
    server: Server, ended: dict[str, Any]
) -> None:
    damage(server, ended, 3)
    answer = resume(server, ended, resume_from=3)
    assert answer.status == 409
    assert "step 3" in answer.json["detail"]
    assert "its intact checkpoints are of these steps: 1, 2" in answer.json["detail"]
    refused = server.ask("POST", "/api/v1/training", {"code": SAVES, "resume_from": f"{ended['id']}@3"})
    assert refused.status == 409, refused.data


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"resume_from": 9}, 404, "steps of its checkpoints: 1, 2, 3"),
        ({"resume_from": -1}, 422, "is not a choice of a checkpoint"),
        ({"resume_from": 1.5}, 422, "is not a choice of a checkpoint"),
        ({"resume_from": "a@b"}, 422, "is not a choice of a checkpoint"),
        ({"resume_from": ["1"]}, 422, "is not a choice of a checkpoint"),
        ({"resume_from": "no-such-job@1"}, 404, "no-such-job"),
        ({"resume_from": 1, "checkpoint": 2}, 422, "differs from the step in `resume_from`"),
        ({"checkpoint": "x@"}, 422, "is not a choice of a checkpoint"),
    ],
)
def test_a_choice_that_cannot_be_is_refused_with_the_reason(
    server: Server, ended: dict[str, Any], body: dict[str, Any], status: int, said: str
) -> None:
    answer = resume(server, ended, **body)
    assert answer.status == status, answer.data
    assert said in answer.data.decode()


def test_another_job_cannot_be_chosen(server: Server, ended: dict[str, Any]) -> None:
    other = server.wait_ended(server.submit(code="print(1)"))
    answer = resume(server, ended, resume_from=f"{other['id']}@1")
    assert answer.status == 422
    assert "another job" in answer.data.decode()
