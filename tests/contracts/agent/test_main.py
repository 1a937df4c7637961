"""One agent claims an attempt and runs it once."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from tests.contracts.agent.agent_process import Agent

Play = Callable[..., Agent]


TALKING_LATER = """
import os, time
print(os.getpid(), flush=True)
time.sleep(0.3)
print("more", flush=True)
time.sleep(60)
"""


def test_an_agent_started_again_does_not_run_the_job_twice(play: Play) -> None:
    agent = play({"code": "import time\nprint('once', flush=True)\ntime.sleep(60)"})
    process = agent.start()
    agent.server.wait_for(lambda: agent.server.log == b"once\n")
    process.kill()
    process.wait()
    assert agent.run() == 0
    assert bytes(agent.server.log) == b"once\n"
    assert agent.server.end is not None
    assert agent.server.end["outcome"] == "agent_lost"


def test_a_second_agent_in_the_same_directory_exits_at_once(play: Play) -> None:
    agent = play({"code": "import time\nprint('x', flush=True)\ntime.sleep(60)"})
    first = agent.start()
    agent.server.wait_for(lambda: bool(agent.server.log))
    assert agent.run() == 75
    agent.server.order({"kind": "cancel"})
    assert first.wait(30) == 0


def test_a_second_agent_on_another_machine_is_refused(play: Play, tmp_path: Path) -> None:
    agent = play({"code": "print('x')"})
    assert agent.run() == 0
    assert Agent(agent.server, tmp_path / "twin").run() == 75


def test_the_claim_waits_for_the_server(play: Play) -> None:
    agent = play({"code": "print('at last')"})
    agent.server.stop()
    agent.start()
    time.sleep(0.3)
    agent.server.listen()
    assert agent.finish() == 0
    assert bytes(agent.server.log) == b"at last\n"
