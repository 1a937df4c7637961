"""The agent as the job of an engine that gives it only environment variables, and the guard that cleans up after it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.contracts.agent.agent_process import Agent
from tests.contracts.agent.waiting import alive, until

Play = Callable[..., Agent]
FOREVER = "echo $$; env; (setsid sleep 1000 & echo $!) ; sleep 1000"


def start(agent: Agent, root: Path, *, gpus: int = 0, **env: str) -> subprocess.Popen[bytes]:
    given = {"ticket": agent.server.ticket(), "directory": str(root), "gpus": gpus}
    variables = {**os.environ, "ANYGPU_START": json.dumps(given), **env}
    return subprocess.Popen([*agent.command(), "--engine"], env=variables, start_new_session=True)


def log_lines(agent: Agent) -> list[str]:
    return bytes(agent.server.log).decode().splitlines()


def processes_of(agent: Agent) -> list[int]:
    """The ids that FOREVER prints: of its shell, and of a child in a session of its own."""
    agent.server.wait_for(lambda: len([line for line in log_lines(agent) if line.isdecimal()]) == 2)
    return [int(line) for line in log_lines(agent) if line.isdecimal()]


def test_the_agent_runs_in_a_directory_that_is_removed_after_its_end(play: Play, tmp_path: Path) -> None:
    agent = play({"shell": "echo $PWD $CUDA_VISIBLE_DEVICES; env"})
    process = start(agent, tmp_path / "nodes", gpus=1, CUDA_VISIBLE_DEVICES="5")
    assert process.wait(timeout=30) == 0
    directory = tmp_path / "nodes" / agent.server.name
    assert log_lines(agent)[0] == f"{directory}/work 5"
    assert "ANYGPU_START" not in bytes(agent.server.log).decode()
    assert agent.server.end is not None
    assert agent.server.end["outcome"] == "exited"
    until(lambda: not directory.exists())


def test_a_job_without_gpus_sees_none(play: Play, tmp_path: Path) -> None:
    agent = play({"shell": 'echo "[$CUDA_VISIBLE_DEVICES]"'})
    assert start(agent, tmp_path, CUDA_VISIBLE_DEVICES="0,1").wait(timeout=30) == 0
    assert log_lines(agent) == ["[]"]


def test_a_killed_agent_leaves_no_process_and_no_report_behind(play: Play, tmp_path: Path) -> None:
    agent = play({"shell": FOREVER})
    process = start(agent, tmp_path)
    running = processes_of(agent)
    os.killpg(process.pid, signal.SIGKILL)  # as Ray does, when its own process has died
    process.wait(timeout=10)
    until(lambda: not any(alive(pid) for pid in running))
    agent.server.wait_for(lambda: agent.server.end is not None)
    assert agent.server.end is not None
    assert agent.server.end["outcome"] == "agent_lost"
    until(lambda: not (tmp_path / agent.server.name).exists())


def test_a_signal_to_the_agent_and_its_job_at_once_is_a_preemption(play: Play, tmp_path: Path) -> None:
    agent = play({"shell": FOREVER})
    process = start(agent, tmp_path)
    for pid in (process.pid, *processes_of(agent)):
        os.kill(pid, signal.SIGTERM)
    assert process.wait(timeout=30) == 0
    assert agent.server.end is not None
    assert (agent.server.end["outcome"], agent.server.end["signal"]) == ("stopped", 15)


@pytest.mark.parametrize(
    "given", ["", "[]", '{"ticket": {"name": "anygpu-../1"}}', '{"ticket": {"name": "x"}}']
)
def test_a_wrong_variable_is_named(play: Play, given: str) -> None:
    agent = play({"shell": "true"})
    done = subprocess.run(
        [*agent.command(), "--engine"],
        env={"ANYGPU_START": given},
        capture_output=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 2
    assert b"cannot start from the variable ANYGPU_START" in done.stderr
