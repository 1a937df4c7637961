"""On a machine that is not the server's: nothing is fetched twice, and what is missing there is said."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.contracts.agent.agent_process import Agent
from tests.contracts.agent.test_agent_moves_files import archive_of, packed, saved, sha
from tests.contracts.agent.tunnel import Tunnel, by_rendezvous

Play = Callable[..., Agent]


@pytest.fixture
def away(play: Play) -> Iterator[Play]:
    """play(), with the agent on another machine."""
    dug: list[Tunnel] = []

    def build(work: dict[str, object]) -> Agent:
        agent = play(work)
        by_rendezvous(agent)
        dug.append(Tunnel(agent.server.port))
        dug[-1].announce(agent)
        return agent

    yield build
    for tunnel in dug:
        tunnel.cut()


def fetched(agent: Agent, path: str) -> int:
    return agent.server.requests.count(("GET", path))


def test_a_second_attempt_on_a_machine_fetches_nothing(away: Play, tmp_path: Path) -> None:
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


def test_a_folder_that_was_sent_along_is_the_dataset(away: Play, tmp_path: Path) -> None:
    data = packed({"digits/train/a.txt": b"a", "digits/test/b.txt": b"b"})
    agent = away(
        {"argv": ["python", "-c", "import os; print(sorted(os.listdir(os.environ['ANYGPU_DATASET'])))"]}
    )
    agent.server.files["/file/data"] = data
    agent.server.work["dataset"] = {
        "path": "/home/me/digits",
        "archive": {"url": "/file/data", "sha256": sha(data), "size": len(data)},
        "entry": "digits",
    }
    assert agent.run(HOME=str(tmp_path)) == 0
    assert bytes(agent.server.log) == b"['test', 'train']\n"


def test_a_path_that_only_the_submitter_has_is_a_clear_failure(away: Play, tmp_path: Path) -> None:
    agent = away({"code": "print('never')", "dataset": {"path": "/home/me/digits", "url": None}})
    assert agent.run(HOME=str(tmp_path)) == 0
    assert agent.server.end is not None
    assert agent.server.end["outcome"] == "failed_to_start"
    assert (
        "the dataset is a path, /home/me/digits, which this machine does not have"
        in agent.server.end["message"]
    )


def test_a_path_that_this_machine_has_is_used(away: Play, tmp_path: Path) -> None:
    agent = away(
        {"code": "import os; print(os.environ['ANYGPU_DATASET'])", "dataset": {"path": str(tmp_path)}}
    )
    assert agent.run(HOME=str(tmp_path)) == 0
    assert bytes(agent.server.log).decode() == f"{tmp_path}\n"


def test_the_submitters_interpreter_is_replaced_by_one_that_is_there(away: Play, tmp_path: Path) -> None:
    agent = away({"code": "print('ran')", "python": "/home/me/.venv/bin/python"})
    assert agent.run(HOME=str(tmp_path)) == 0
    assert bytes(agent.server.log).endswith(b"ran\n")
    assert b"[anygpu] this machine has no /home/me/.venv/bin/python; the job runs with" in agent.server.log


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
def test_a_disk_that_is_full_names_the_step(away: Play, tmp_path: Path, what: str) -> None:
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


def test_a_disk_too_full_to_spool_loses_nothing_and_training_goes_on(away: Play, tmp_path: Path) -> None:
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
