"""`anygpu server move` with a job that runs meanwhile: nothing is lost, and the job goes on."""

import asyncio
import json
import shutil
import subprocess
import sys
import time
import tomllib
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.server.real_server import Answer, Server, refused_start
from tests.contracts.blobs.conftest import emulators, s3  # noqa: F401 - fixtures
from tests.contracts.store.conftest import postgres_url  # noqa: F401 - a fixture
from tests.contracts.store.test_move import target  # noqa: F401 - a fixture

from anygpu.store.blobs.contract import Blobs
from anygpu.store.blobs.factory import open_blobs

STEPS = 240
LINE = "step={i} loss={i / 7:.4f}"
COUNTING = f"""
import os, time
for i in range({STEPS}):
    print(f"{LINE}", flush=True)
    time.sleep(0.02)
    while i == {STEPS // 2} and not os.path.exists(GO): time.sleep(0.05)
"""
COUNTED = "".join(f"step={i} loss={i / 7:.4f}\n" for i in range(STEPS)).encode()
SAVING = """
import anygpu, os, pathlib, time
resumed = anygpu.resume_path()
step = int(pathlib.Path(resumed).read_text().split()[0]) if resumed else 0
while True:
    step += 1
    pathlib.Path("state.txt").write_text(f"{step} {os.urandom(2000).hex()}")
    anygpu.checkpoint("state.txt", step=step)
    if step > 20 and os.path.exists(GO):
        break
    time.sleep(0.05)
pathlib.Path("model.txt").write_text("trained")
anygpu.artifact("model.txt")
"""


@pytest.fixture
def server(tmp_path: Path, target: str) -> Iterator[Server]:  # noqa: F811
    """An embedded server. It stops before the database that it was moved to is removed."""
    server = Server(tmp_path, XDG_CONFIG_HOME=str(tmp_path / "config"))
    yield server
    server.cancel_everything()
    server.stop()


def start_move(server: Server, *options: str) -> subprocess.Popen[str]:
    environment = {**server._environment, "ANYGPU_STATE": str(server.state)}
    command = [sys.executable, "-m", "anygpu", "server", "move", *options]
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def run_move(server: Server, *options: str) -> subprocess.CompletedProcess[str]:
    process = start_move(server, *options)
    output, errors = process.communicate(timeout=200)
    return subprocess.CompletedProcess(process.args, process.returncode, output, errors)


def follow_redirect(answer: Answer) -> bytes:
    """Return the content of a file, which the server sends itself or by a signed URL."""
    if answer.status == 200:
        return answer.data
    with urllib.request.urlopen(answer.headers["location"], timeout=30) as response:
        content: bytes = response.read()
    return content


async def has_files(blobs: Blobs) -> bool:
    async for _ in blobs.list(""):
        return True
    return False


@pytest.mark.extended
def test_a_running_job_goes_on_after_the_move(server: Server, target: str, tmp_path: Path) -> None:  # noqa: F811
    server.ask("PUT", "/api/v1/secrets/GREETING", {"value": "hello"})
    ended = server.submit(command=["sh", "-c", "echo $GREETING"], secrets=["GREETING"])
    assert server.wait_ended(ended)["status"] == "completed"
    go = tmp_path / "go"
    running = server.submit(code=COUNTING.replace("GO", repr(str(go))))
    server.wait(running, lambda job: job["phase"] == "training")

    refused = run_move(server, "--to", target)
    assert refused.returncode != 0
    assert "anygpu down`, then run the same command again" in refused.stderr
    plan = run_move(server, "--to", target, "--dry-run", "--json")
    assert json.loads(plan.stdout)["live_jobs"] == 1
    assert run_move(server, "--to", target, "--prepare").returncode == 0

    server.stop()
    moved = run_move(server, "--to", target, "--write-settings")
    assert moved.returncode == 0, moved.stderr
    assert "SHA-256 of all tables agree" in moved.stdout
    settings = tmp_path / "config" / "anygpu" / "config.toml"
    assert tomllib.loads(settings.read_text())["store"]["database"] == target
    assert settings.stat().st_mode & 0o077 == 0, "the address may contain a password"

    server.start()
    go.touch()
    job = server.wait_ended(running)
    assert (job["status"], len(job["attempts"])) == ("completed", 1), job
    assert server.ask("GET", f"/api/v1/training/{running}/logs").data == COUNTED
    metrics = server.ask("GET", f"/api/v1/training/{running}/metrics?name=loss&points=1000").json
    assert [point[0] for point in metrics["series"][0]["points"]] == list(range(STEPS))
    assert server.job(ended)["status"] == "completed"
    again = server.submit(command=["sh", "-c", "echo $GREETING"], secrets=["GREETING"])
    assert server.wait_ended(again)["status"] == "completed", "the vault opens its secrets"
    events = server.ask("GET", f"/api/v1/training/{running}/events").json["events"]
    positions = [each["position"] for each in events]
    assert positions == sorted(set(positions))

    code, error = refused_start(
        server.state, ANYGPU_STORE__DATABASE=f"sqlite:///{server.state / 'anygpu.db'}"
    )
    assert code != 0
    assert "was moved to postgresql://" in error


@pytest.mark.extended
def test_files_move_to_a_bucket_while_a_job_saves_checkpoints(
    server: Server,
    target: str,  # noqa: F811
    s3: dict[str, Any],  # noqa: F811
    tmp_path: Path,
) -> None:
    go, moving = tmp_path / "go", tmp_path / "moving"
    go.touch()
    ended = server.submit(code=SAVING.replace("GO", repr(str(go))))
    assert server.wait_ended(ended)["status"] == "completed"
    running = server.submit(code=SAVING.replace("GO", repr(str(moving))))
    server.wait(running, lambda job: (job["checkpoint"] or {}).get("step", 0) >= 2)
    server.stop()

    options = [f"{name}={s3[name]}" for name in ("endpoint", "region", "access_key_id", "secret_access_key")]
    options.append("client.allow_http=true")
    command = ["--to", target, "--blobs", "s3://anygpu/moved"]
    command += [part for option in options for part in ("--blob-option", option)]
    process = start_move(server, *command)
    moved_blobs = open_blobs("s3://anygpu/moved", options=s3)
    end = time.monotonic() + 120
    while process.poll() is None and not asyncio.run(has_files(moved_blobs)):
        assert time.monotonic() < end, "no file was copied"
    process.kill()  # in the middle
    process.communicate()
    moved = run_move(server, *command, "--write-settings")
    assert moved.returncode == 0, moved.stderr
    again = run_move(server, *command)
    assert again.returncode != 0
    assert "already names a PostgreSQL database" in again.stderr

    server.start()
    before = server.job(running)["checkpoint"]["step"]
    server.wait(running, lambda job: job["checkpoint"]["step"] > before + 5)
    moving.touch()
    job = server.wait_ended(running, timeout_s=60)
    assert (job["status"], len(job["attempts"])) == ("completed", 1), job
    for job_id in (ended, running):
        content = server.ask("GET", f"/api/v1/training/{job_id}/artifacts/model.txt")
        assert follow_redirect(content) == b"trained"
    resumed = server.ask("POST", f"/api/v1/training/{ended}/resume", {}).json["id"]
    assert server.wait_ended(resumed, timeout_s=60)["status"] == "completed"
    assert server.job(resumed)["resume"]["state"] == "verified", "from a checkpoint that was moved"
    shutil.rmtree(server.state / "blobs")
    assert server.ask("GET", f"/api/v1/training/{ended}/checkpoints").json["checkpoints"]
