"""On a machine that is not the server's: nothing is downloaded twice, and missing inputs are reported."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.contracts.agent.agent_process import Agent
from tests.contracts.agent.job_files import archive_of, packed, saved, sha

Play = Callable[..., Agent]


def fetched(agent: Agent, path: str) -> int:
    return agent.server.requests.count(("GET", path))


def test_a_second_attempt_on_a_machine_downloads_nothing(away: Play, tmp_path: Path) -> None:
    data = bytes(range(256)) * 4000
    for expected in (1, 0):
        agent = away({"argv": ["python", "train.py"]})
        archive_of(
            agent.server, {"train.py": b"import os; print(os.path.getsize(os.environ['ANYGPU_DATASET']))"}
        )
        agent.server.files["/file/digits.npz"] = data
        agent.server.work["dataset"] = {"path": None, "url": "/file/digits.npz", "sha256": sha(data)}
        assert agent.run(HOME=str(tmp_path)) == 0
        assert int(agent.server.log) == len(data)
        assert (fetched(agent, "/file/work"), fetched(agent, "/file/digits.npz")) == (expected, expected)


def sent_along(agent: Agent, files: dict[str, bytes], part_bytes: int) -> None:
    data = packed(files)
    pieces = [data[at : at + part_bytes] for at in range(0, len(data), part_bytes)]
    parts = [{"url": f"/file/{sha(piece)}", "sha256": sha(piece)} for piece in pieces]
    agent.server.files.update({f"/file/{sha(piece)}": piece for piece in pieces})
    agent.server.work["dataset"] = {"path": "/home/me/digits", "parts": parts}


LISTING = "import os; print(sorted(os.listdir(os.environ['ANYGPU_DATASET'])))"


def test_a_dataset_that_was_uploaded_in_parts_is_unpacked(away: Play, tmp_path: Path) -> None:
    files = {"digits/train/a.txt": os.urandom(3000), "digits/test/b.txt": os.urandom(3000)}
    for is_first in (True, False):
        agent = away({"argv": ["python", "-c", LISTING]})
        sent_along(agent, files, part_bytes=1000)
        assert agent.run(HOME=str(tmp_path)) == 0
        assert bytes(agent.server.log) == b"['test', 'train']\n"
        parts = agent.server.work["dataset"]["parts"]
        assert len(parts) > 5
        fetched_parts = sum(path.startswith("/file/") for _, path in agent.server.requests)
        assert fetched_parts == (len(parts) if is_first else 0)


def test_an_uploaded_dataset_is_used_if_the_server_lacks_the_path(play: Play) -> None:
    agent = play({"argv": ["python", "-c", LISTING]})
    sent_along(agent, {"digits/a.txt": b"a"}, part_bytes=1000)
    assert agent.run() == 0
    assert bytes(agent.server.log) == b"['a.txt']\n"


def test_a_damaged_part_of_a_dataset_is_never_used(away: Play, tmp_path: Path) -> None:
    agent = away({"argv": ["python", "-c", LISTING]})
    sent_along(agent, {"digits/a.txt": os.urandom(3000)}, part_bytes=1000)
    second = agent.server.work["dataset"]["parts"][1]["url"]
    agent.server.files[second] = b"x" * 1000
    assert agent.run(HOME=str(tmp_path)) == 0
    assert agent.server.end is not None
    assert "part 2 of 4 of the dataset is damaged" in agent.server.end["message"]


def test_an_expired_url_is_replaced_by_a_new_one(away: Play, tmp_path: Path) -> None:
    agent = away({"argv": ["python", "-c", LISTING]})
    sent_along(agent, {"digits/a.txt": os.urandom(3000)}, part_bytes=1000)
    expired = agent.server.work["dataset"]["parts"][2]
    original = agent.server.answer

    def answer(method: str, target: str, body: bytes, token: str) -> tuple[int, object]:
        if target.endswith("/claim") and agent.server.claimant is not None:
            expired["url"] = f"/file/{expired['sha256']}"
        return (
            (403, {"code": "expired"})
            if target == "/file/too-late"
            else original(method, target, body, token)
        )

    expired["url"] = "/file/too-late"
    agent.server.answer = answer  # type: ignore[method-assign]
    assert agent.run(HOME=str(tmp_path)) == 0
    assert bytes(agent.server.log) == b"['a.txt']\n"
    assert not (agent.directory / "dataset").exists(), "what was unpacked for the job goes with it"


def test_a_path_that_only_the_submitter_has_is_an_error(away: Play, tmp_path: Path) -> None:
    agent = away({"code": "print('never')", "dataset": {"path": "/home/me/digits", "url": None}})
    assert agent.run(HOME=str(tmp_path)) == 0
    assert agent.server.end is not None
    assert agent.server.end["outcome"] == "failed_to_start"
    assert "the dataset /home/me/digits does not exist on this machine" in agent.server.end["message"]


def test_a_path_that_this_machine_has_is_used(away: Play, tmp_path: Path) -> None:
    agent = away(
        {"code": "import os; print(os.environ['ANYGPU_DATASET'])", "dataset": {"path": str(tmp_path)}}
    )
    assert agent.run(HOME=str(tmp_path)) == 0
    assert bytes(agent.server.log).decode() == f"{tmp_path}\n"


def with_little_disk(agent: Agent, most_bytes: int, **env: str) -> None:
    """Every file this agent writes may be so long, as on a disk that is nearly full."""
    limit = (
        f"import resource, os, sys; resource.setrlimit({resource.RLIMIT_FSIZE}, ({most_bytes}, {most_bytes}))"
    )
    command = [sys.executable, "-c", f"{limit}; os.execv(sys.argv[1], sys.argv[1:])"]
    agent.process = subprocess.Popen(
        [*command, *agent.command(), str(agent.directory)],
        stderr=subprocess.PIPE,
        env={"PATH": "/bin", **env},
    )
    agent._started.append(agent.process)


@pytest.mark.parametrize("what", ["working directory", "dataset"])
def test_a_full_disk_is_reported_with_the_step(away: Play, tmp_path: Path, what: str) -> None:
    data = bytes(range(256)) * 8000
    agent = away({"argv": ["python", "-c", "print('never')"]})
    if what == "dataset":
        agent.server.files["/file/digits.npz"] = data
        agent.server.work["dataset"] = {"path": None, "url": "/file/digits.npz", "sha256": sha(data)}
    else:
        archive_of(agent.server, {"big.bin": data})
    with_little_disk(agent, 1_000_000, HOME=str(tmp_path))
    assert agent.finish() == 0
    assert agent.server.end is not None
    assert agent.server.end["outcome"] == "failed_to_start"
    assert agent.server.end["message"].startswith(f"fetching the {what}: the disk is full (")


def test_training_continues_without_loss_when_the_disk_is_full(away: Play, tmp_path: Path) -> None:
    code = """
import anygpu
with open("ckpt.pt", "wb") as file:
    file.write(b"c" * 150_000)
anygpu.checkpoint("ckpt.pt", step=1)
for step in range(300):
    print("x" * 9000, flush=True)
    anygpu.log(loss=1, step=step)
print("done")
"""
    agent = away({"code": code, "spool_limit_bytes": 16_000_000})
    with_little_disk(agent, 200_000, HOME=str(tmp_path))
    assert agent.finish(60) == 0
    assert agent.server.end is not None
    assert (agent.server.end["outcome"], agent.server.end["exit_code"]) == ("exited", 0)
    assert len(agent.server.points()) == 300
    assert agent.server.log.count(b"x" * 9000) == 300
    assert agent.server.end["log_bytes"] == len(agent.server.log)
    assert [one["step"] for one in saved(agent.server)] == [1]
