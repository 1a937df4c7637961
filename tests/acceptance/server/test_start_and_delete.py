"""A waiting job that is started before others, and a job that is deleted after its end."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.acceptance.server.real_server import Server

from anygpu.errors import Conflict, NotFound
from anygpu.sdk.platform import Platform

TRAINING = "/api/v1/training"


@pytest.fixture
def one_slot(new_server: Callable[..., Server]) -> Server:
    return new_server(ANYGPU_LOCAL__CPUS="1")


def first_started(server: Server, *job_ids: str) -> str:
    """The id of the job whose attempt started first, after all have ended."""
    jobs = [server.wait_ended(job_id, timeout_s=60) for job_id in job_ids]
    started: str = min(jobs, key=lambda job: job["attempts"][0]["launching_at"])["id"]
    return started


def test_a_started_job_runs_before_those_submitted_earlier(one_slot: Server, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    running = one_slot.submit(command=f"while [ ! -e {gate} ]; do sleep 0.05; done")
    one_slot.wait(running, lambda job: job["phase"] == "training")
    early, late = one_slot.submit(command=["true"]), one_slot.submit(command=["true"])
    one_slot.wait(late, lambda job: job["queue_position"] == 2)
    assert one_slot.job(late)["start_requested"] is False
    for _ in range(2):
        answer = one_slot.ask("POST", f"{TRAINING}/{late}/start")
        assert (answer.status, answer.json["start_requested"]) == (202, True)
    one_slot.wait(late, lambda job: job["queue_position"] == 1)
    assert one_slot.ask("POST", f"{TRAINING}/{running}/start").json["start_requested"] is False
    gate.touch()
    assert first_started(one_slot, early, late) == late
    events = one_slot.ask("GET", f"{TRAINING}/{late}/events").json["events"]
    assert [event["type"] for event in events].count("StartRequested") == 1
    assert one_slot.ask("POST", f"{TRAINING}/{late}/start").status == 409


def test_a_job_is_deleted_after_its_end_and_not_before(server: Server, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    platform = Platform(server.url, server.token)
    job_id = server.submit(command=f"echo seen; while [ ! -e {gate} ]; do sleep 0.05; done", name="brief")
    job = platform.job(job_id)
    with pytest.raises(Conflict):
        job.delete()
    gate.touch()
    assert job.result(timeout_s=60)["recent_logs"] == ["seen"]
    job.delete()
    with pytest.raises(NotFound):
        job.describe()
    assert [each.id for each in platform.jobs(name="brief")] == []
    assert server.ask("DELETE", f"{TRAINING}/{job.id}").status == 404
    platform.client.close()


def test_a_viewer_may_not_delete_or_start(server: Server) -> None:
    job_id = server.submit(command=["true"])
    server.wait_ended(job_id)
    viewer = server.new_token(name="looks", role="viewer")
    assert server.ask("DELETE", f"{TRAINING}/{job_id}", token=viewer).status == 403
    assert server.ask("POST", f"{TRAINING}/{job_id}/start", token=viewer).status == 403
    assert server.job(job_id)["status"] == "completed"
