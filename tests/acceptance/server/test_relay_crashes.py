"""Jobs behind a relay while the server and the agents are killed: no report is lost or doubled."""

import hashlib
import json
import os
import random
import re
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from tests.acceptance.server.real_server import Server
from tests.contracts.agent.job_files import packed
from tests.contracts.blobs.conftest import emulators, s3  # noqa: F401 - fixtures
from tests.contracts.store.conftest import postgres_url  # noqa: F401 - a fixture
from tests.walk import paths_below

from anygpu.store.blobs.contract import Blobs
from anygpu.store.blobs.factory import open_blobs

CountObjects = Callable[[], Awaitable[int]]
pytestmark = pytest.mark.extended

STEPS = 300
TRAINING = f"""
import os, time, anygpu
start = 0
if anygpu.resume_path():
    start = int(open(anygpu.resume_path()).read())
for i in range(start, {STEPS}):
    print(f"line {{i}}", flush=True)
    anygpu.log(step=i, loss=1.0 / (i + 1))
    if i % 50 == 49:
        open("state.txt", "w").write(str(i + 1))
        anygpu.checkpoint("state.txt", step=i + 1)
    time.sleep(0.05)
"""


@pytest.fixture(params=["directory", "storage"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def mailboxes(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> CountObjects:
    """Counts the files or objects in all mailboxes."""
    if kind == "directory":
        return lambda: count_files(tmp_path / "relay")
    options = request.getfixturevalue("s3")
    blobs = open_blobs(bucket_of(tmp_path), options=options)
    return lambda: count_blobs(blobs)


async def count_files(root: Path) -> int:
    return len(paths_below(root))


async def count_blobs(blobs: Blobs) -> int:
    return len([info async for info in blobs.list("relay")])


@pytest.fixture
def server(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    common = {
        "ANYGPU_LOCAL__RELAY": kind,
        "ANYGPU_RELAY__POLL_S": "0.2",
        "ANYGPU_SERVER__AGENT_URL": "http://127.0.0.1:1",
    }
    if kind == "storage":
        common |= storage_environment(request.getfixturevalue("s3"), bucket_of(tmp_path))
    else:
        common["ANYGPU_RELAY__DIRECTORY"] = str(tmp_path / "relay")
    server = Server(tmp_path, **common)
    yield server
    server.cancel_everything()
    server.stop()


def bucket_of(tmp_path: Path) -> str:
    return f"s3://anygpu/{hashlib.sha256(str(tmp_path).encode()).hexdigest()[:16]}"


def storage_environment(options: dict[str, object], url: str) -> dict[str, str]:
    return {
        "ANYGPU_STORE__BLOBS": url,
        "AWS_ENDPOINT_URL": str(options["endpoint"]),
        "AWS_ACCESS_KEY_ID": str(options["access_key_id"]),
        "AWS_SECRET_ACCESS_KEY": str(options["secret_access_key"]),
        "AWS_REGION": str(options["region"]),
        "AWS_ALLOW_HTTP": "true",
    }


def kill(server: Server) -> None:
    server.process.kill()
    server.process.wait()
    assert server.process.stdout is not None
    server.process.stdout.close()


def logged_lines(server: Server, job_id: str, attempt: int) -> list[int]:
    text = server.ask("GET", f"/api/v1/training/{job_id}/logs?attempt={attempt}").data.decode()
    return [int(number) for number in re.findall(r"^line (\d+)$", text, re.MULTILINE)]


@pytest.mark.parametrize("seed", [1, 2])
def test_a_server_that_is_killed_again_and_again_loses_and_doubles_nothing(server: Server, seed: int) -> None:
    chance = random.Random(seed)
    job_id = server.submit(code=TRAINING)
    server.wait(job_id, lambda job: job["phase"] == "training", 60)
    for _ in range(6):
        time.sleep(chance.uniform(0.1, 2.0))
        kill(server)
        server.start()
    done = server.wait_ended(job_id, 120)
    assert (done["status"], len(done["attempts"])) == ("completed", 1)
    assert logged_lines(server, job_id, 1) == list(range(STEPS))
    series = server.ask("GET", f"/api/v1/training/{job_id}/metrics?name=loss&points=1000").json["series"]
    assert [point[0] for point in series[0]["points"]] == list(range(STEPS))


def test_an_agent_that_is_killed_delivers_its_spool_and_the_job_resumes(server: Server) -> None:
    job_id = server.submit(code=TRAINING)
    server.wait(job_id, lambda job: job["checkpoint"] is not None, 60)
    for directory in (server.state / "attempts").iterdir():
        if (directory / "agent.json").exists():
            os.kill(
                int(re.findall(r'"pid": (\d+)', (directory / "agent.json").read_text())[0]), signal.SIGKILL
            )
    done = server.wait_ended(job_id, 180)
    assert (done["status"], len(done["attempts"])) == ("completed", 2)
    first, second = logged_lines(server, job_id, 1), logged_lines(server, job_id, 2)
    assert first == list(range(len(first)))
    assert len(first) >= 50
    assert second == list(range(second[0], STEPS))
    assert second[0] in (50, 100), "it continued from a checkpoint"


async def test_nothing_is_left_when_the_attempts_are_over(server: Server, mailboxes: CountObjects) -> None:
    job_id = server.submit(code="import time\nfor i in range(40): print(i, flush=True); time.sleep(0.1)")
    most = 0
    while server.job(job_id)["ended_at"] is None:
        most = max(most, await mailboxes())
        time.sleep(0.05)
    assert 0 < most <= 12, "five channels of two files, and at most two drafts"
    deadline = time.monotonic() + 90
    while await mailboxes():
        assert time.monotonic() < deadline, "the mailbox was not removed"
        time.sleep(0.5)


async def test_a_server_that_was_down_removes_what_was_left(server: Server, mailboxes: CountObjects) -> None:
    job_id = server.submit(code="print('short')")
    server.wait_ended(job_id, 60)
    kill(server)
    assert await mailboxes()
    server.start()
    deadline = time.monotonic() + 60
    while await mailboxes():
        assert time.monotonic() < deadline, "the mailbox was not removed"
        time.sleep(0.5)


def test_the_working_directory_and_the_dataset_pass(server: Server, tmp_path: Path) -> None:
    script = b"import os\nprint(open('words.txt').read(), sorted(os.listdir(os.environ['ANYGPU_DATASET'])))"
    words, large = b"from the working directory", os.urandom(3_000_000)
    files = [upload(server, "train.py", script), upload(server, "words.txt", words)]
    listed = json.dumps({"files": files}).encode()
    data = tmp_path / "nowhere" / "pictures"
    job_id = server.submit(
        script="train.py",
        workdir={"manifest": upload(server, "", listed)["sha256"], "snapshot": True},
        dataset={
            "path": str(data),
            "parts": [upload(server, "", packed({"pictures/1.bin": large}))["sha256"]],
        },
    )
    done = server.wait_ended(job_id, 90)
    log = server.ask("GET", f"/api/v1/training/{job_id}/logs").data.decode()
    assert done["status"] == "completed", log
    assert "from the working directory ['1.bin']" in log


def upload(server: Server, path: str, content: bytes) -> dict[str, object]:
    sha256 = hashlib.sha256(content).hexdigest()
    assert server.ask("PUT", f"/api/v1/uploads/{sha256}", content).status in (200, 201)
    return {"path": path, "size": len(content), "sha256": sha256}


def test_another_server_takes_over_the_mailboxes(postgres_url: str, tmp_path: Path) -> None:  # noqa: F811
    common = {
        "ANYGPU_STORE__DATABASE": postgres_url,
        "ANYGPU_STORE__BLOBS": (tmp_path / "blobs").as_uri(),
        "ANYGPU_SERVER__SIGNING_KEY": str(tmp_path / "signing.key"),
        "ANYGPU_SERVER__AGENT_URL": "http://127.0.0.1:1",
        "ANYGPU_RELAY__DIRECTORY": str(tmp_path / "relay"),
        "ANYGPU_RELAY__POLL_S": "0.2",
        "ANYGPU_LOCAL__RELAY": "directory",
        "ANYGPU_LOCAL__ATTEMPTS": str(tmp_path / "attempts"),
        "ANYGPU_CONTROL__LEADER_TTL_S": "2",
        "ANYGPU_CONTROL__POLL_EVENTS_S": "0.1",
    }
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    first, second = Server(tmp_path / "first", **common), Server(tmp_path / "second", **common)
    try:
        job_id = first.submit(code=TRAINING)
        first.wait(job_id, lambda job: job["phase"] == "training", 60)
        kill(first)
        done = second.wait_ended(job_id, 120)
        assert (done["status"], len(done["attempts"])) == ("completed", 1)
        assert logged_lines(second, job_id, 1) == list(range(STEPS))
    finally:
        second.cancel_everything()
        second.stop()
        first.stop()
