"""An agent of an older version works with the current server, and the current agent with its directory.

agent-0.1.0.pyz was made by `build_pyz` at version 0.1.0, before the agent's modules were grouped into packages. It was
compressed again, without the trainers, to keep it small.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.acceptance.server.real_server import Server
from tests.contracts.agent.agent_process import Agent

OLD_AGENT = Path(__file__).with_name("agent-0.1.0.pyz")
# The server process imports this at its start.
USE_OLD_AGENT = f"""
from pathlib import Path
from anygpu.backends.local import backend
backend.AGENT = Path({str(OLD_AGENT)!r})
"""
SCRIPT = """
import anygpu, pathlib
print("the first line", flush=True)
anygpu.log(loss=0.25, step=3)
pathlib.Path("model.pt").write_text("weights")
anygpu.checkpoint("model.pt", step=3, wait=True)
anygpu.artifact("model.pt")
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A current server whose local backend starts old agents."""
    (tmp_path / "sitecustomize.py").write_text(USE_OLD_AGENT)
    server = Server(tmp_path, PYTHONPATH=str(tmp_path), XDG_CACHE_HOME=str(tmp_path / ".cache"))
    yield server
    server.stop()


def test_an_old_agent_runs_a_job_of_the_current_server(server: Server, tmp_path: Path) -> None:
    job_id = server.submit(code=SCRIPT, python=sys.executable)
    job = server.wait_ended(job_id, timeout_s=60)
    assert job["status"] == "completed", job

    def get(path: str) -> bytes:
        return server.ask("GET", f"/api/v1/training/{job_id}/{path}").data

    assert b"the first line" in get("logs")
    assert b"loss" in get("metrics")
    assert b"model.pt" in get("artifacts")
    (checkpoint,) = json.loads(get("checkpoints"))["checkpoints"]
    assert checkpoint["step"] == 3
    unpacked = tmp_path / ".cache" / "anygpu" / "agent"
    assert list(unpacked.glob("*/anygpu/agent/box.py")), "this was not the old agent"


def test_the_current_agent_delivers_for_an_old_one_that_died(play: Callable[..., Agent]) -> None:
    agent = play({"shell": "echo from the old agent; sleep 1000"})
    command = [sys.executable, "-I", "-S", str(OLD_AGENT), str(agent.directory)]
    env = {**os.environ, "HOME": str(agent.directory.parent)}
    with subprocess.Popen(command, env=env) as old:
        agent.server.wait_for(lambda: b"from the old agent" in agent.server.log)
        old.send_signal(signal.SIGKILL)
    assert agent.run("--deliver") == 0
    assert agent.server.end is not None
    assert agent.server.end["outcome"] == "agent_lost"
    assert agent.server.end["log_bytes"] == len(agent.server.log)
