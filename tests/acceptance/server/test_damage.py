"""Damaged rows in the database of a real server: everything else goes on."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.server.real_server import Server

NewServer = Callable[..., Server]
VIEWS = ["", "null", '{"id": "', '{"status": "melted"}']


def crash(server: Server) -> None:
    os.kill(server.process.pid, signal.SIGKILL)
    server.process.wait()
    assert server.process.stdout is not None
    server.process.stdout.close()


def execute(server: Server, sql: str, *values: Any) -> list[Any]:
    with sqlite3.connect(server.state / "anygpu.db") as database:
        return database.execute(sql, values).fetchall()


def running_job(server: Server) -> str:
    job_id = server.submit(command=["sleep", "600"], name="victim")
    server.wait(job_id, lambda job: job["phase"] == "training")
    return job_id


def run_another_job(server: Server) -> None:
    ended = server.wait_ended(server.submit(command=["true"], name="other"), timeout_s=60)
    assert ended["status"] == "completed"


@pytest.mark.parametrize("view", VIEWS)
def test_a_damaged_view_is_repaired_and_its_job_goes_on(new_server: NewServer, view: str) -> None:
    server = new_server()
    job_id = running_job(server)
    crash(server)
    execute(server, "UPDATE jobs SET view = ? WHERE id = ?", view, job_id)
    server.start()
    listed = server.ask("GET", "/api/v1/training")
    assert listed.status == 200
    assert [(job["id"], job["status"], job["damaged"]) for job in listed.json["jobs"]] == [
        (job_id, "running", None)
    ]
    run_another_job(server)
    assert server.ask("POST", f"/api/v1/training/{job_id}/cancel").status == 202
    assert server.wait_ended(job_id, timeout_s=60)["status"] == "cancelled"
    assert server.ask("GET", "/readyz").json["warnings"] == []


def test_a_job_with_a_damaged_event_is_marked_and_stops_no_other(
    new_server: NewServer, tmp_path: Path
) -> None:
    server = new_server()
    job_id = running_job(server)
    crash(server)
    where = "job_id = ? AND kind = 'AttemptClaimed'"
    ((data,),) = execute(server, f"SELECT data FROM events WHERE {where}", job_id)
    execute(server, f"UPDATE events SET data = '{{' WHERE {where}", job_id)
    execute(server, "UPDATE jobs SET view = '{' WHERE id = ?", job_id)
    server.start()

    shown = server.ask("GET", f"/api/v1/training/{job_id}")
    assert (shown.status, shown.json["status"], shown.json["name"]) == (200, "running", "victim")
    assert "(AttemptClaimed) cannot be read" in shown.json["damaged"]
    (listed,) = server.ask("GET", "/api/v1/training").json["jobs"]
    assert listed["damaged"] == shown.json["damaged"]
    events = server.ask("GET", f"/api/v1/training/{job_id}/events").json["events"]
    assert "DamagedEvent" in [event["type"] for event in events]
    for path in ("/api/v1/queue", "/api/v1/machines", "/api/v1/monitoring/gpu", "/metrics"):
        assert server.ask("GET", path).status == 200, path
    cancelled = server.ask("POST", f"/api/v1/training/{job_id}/cancel")
    assert (cancelled.status, cancelled.json["code"]) == (503, "job_damaged")
    assert "Restore the database" in cancelled.json["hint"]
    run_another_job(server)

    (warning,) = server.ask("GET", "/readyz", token=None).json["warnings"]
    assert warning.startswith("1 job has damaged events")
    assert job_id not in warning
    doctor = run_cli(server, tmp_path, "doctor")
    assert "warn  server    1 job has damaged events and is not managed" in doctor.stdout
    assert "running (damaged)" in run_cli(server, tmp_path, "ls").stdout
    assert f"job {job_id} are damaged, so the job is no longer managed" in server.error_log

    execute(server, f"UPDATE events SET data = ? WHERE {where}", data, job_id)  # as from a backup
    server.wait(job_id, lambda job: job["damaged"] is None)
    assert server.ask("POST", f"/api/v1/training/{job_id}/cancel").status == 202
    assert server.wait_ended(job_id, timeout_s=60)["status"] == "cancelled"


def test_streams_get_past_a_damaged_event(new_server: NewServer) -> None:
    server = new_server()
    job_id = server.submit(command=["true"], name="victim")
    server.wait_ended(job_id)
    crash(server)
    execute(server, "UPDATE events SET data = '{' WHERE job_id = ? AND kind = 'AttemptEnded'", job_id)
    server.start()
    answer = server.ask("GET", f"/api/v1/training/{job_id}/stream?after=0&include=events")
    assert answer.status == 200
    messages = [json.loads(line) for line in answer.data.splitlines()]
    types = [message["event"]["type"] for message in messages if message["kind"] == "event"]
    assert types[0] == "JobSubmitted"
    assert "DamagedEvent" in types
    assert types[-1] == "JobCompleted"
    assert messages[-1] == {"kind": "end", "status": "completed"}


def run_cli(server: Server, home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "HOME": str(home), "ANYGPU_STATE": str(server.state), "COLUMNS": "150"}
    command = [str(Path(sys.executable).with_name("anygpu")), *words]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)
