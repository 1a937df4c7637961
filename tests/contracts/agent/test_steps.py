"""The steps before a job starts, and the errors that name them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.contracts.agent.agent_process import Agent
from tests.contracts.agent.job_files import archive_of, packed

Play = Callable[..., Agent]


def test_the_archive_becomes_the_working_directory(play: Play) -> None:
    agent = play({"argv": ["python", "train.py"], "subdir": "project"})
    archive_of(agent.server, {"project/train.py": b"import helper", "project/helper.py": b"print('here')"})
    assert agent.run() == 0
    assert bytes(agent.server.log) == b"here\n"
    assert [frame["phase"] for frame in agent.server.of_kind("phase")] == [
        "preparing",
        "training",
        "finishing",
    ]


def test_an_archive_with_another_hash_is_refused(play: Play) -> None:
    agent = play({"argv": ["python", "train.py"]})
    archive_of(agent.server, {"train.py": b"print('never')"})
    agent.server.files["/file/work"] = packed({"train.py": b"print('evil')"})
    assert agent.run() == 0
    assert agent.server.end is not None
    assert agent.server.end["outcome"] == "failed_to_start"
    assert "sha256" in agent.server.end["message"]


def test_an_archive_with_paths_outside_is_refused(play: Play) -> None:
    agent = play({"argv": ["python", "train.py"]})
    archive_of(agent.server, {"../../escaped.py": b"x"})
    assert agent.run() == 0
    assert agent.server.end is not None
    assert "outside of the working directory" in agent.server.end["message"]
    assert not (agent.directory.parent / "escaped.py").exists()


def test_setup_runs_first_and_its_failure_is_reported(play: Play) -> None:
    agent = play({"setup": ["echo ready", "exit 3"], "code": "print('never')"})
    assert agent.run() == 0
    assert b"ready\n" in agent.server.log
    assert b"never" not in agent.server.log
    assert agent.server.end is not None
    assert agent.server.end["message"] == "setup: command 2 failed with exit code 3: exit 3"


def test_a_missing_command_is_reported(play: Play) -> None:
    agent = play({"argv": ["trian.sh"]})
    assert agent.run() == 0
    assert agent.server.end is not None
    assert agent.server.end["outcome"] == "failed_to_start"
    assert "'trian.sh' was not found" in agent.server.end["message"]


def test_a_missing_interpreter_is_replaced_by_the_agents_own(away: Play, tmp_path: Path) -> None:
    agent = away({"code": "print('ran')", "python": "/home/me/.venv/bin/python"})
    assert agent.run(HOME=str(tmp_path)) == 0
    assert bytes(agent.server.log).endswith(b"ran\n")
    said = b"[anygpu] The Python of this job, /home/me/.venv/bin/python, does not exist on this machine"
    assert said in agent.server.log
