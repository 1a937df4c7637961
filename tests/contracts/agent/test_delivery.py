"""Reports of an agent that died are delivered by another one."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.contracts.agent.agent_process import Agent
from tests.contracts.agent.waiting import alive

Play = Callable[..., Agent]


TALKING_LATER = """
import os, time
print(os.getpid(), flush=True)
time.sleep(0.3)
print("more", flush=True)
time.sleep(60)
"""


def test_reports_of_a_killed_agent_are_delivered_and_its_job_is_killed(play: Play) -> None:
    agent = play({"code": TALKING_LATER})
    process = agent.start()
    agent.server.wait_for(lambda: agent.server.log.endswith(b"\n"))
    agent.server.stop()
    time.sleep(0.7)
    process.kill()
    process.wait()
    agent.server.listen()
    assert agent.run("--deliver") == 0
    pid, more = bytes(agent.server.log).split(b"\n")[:2]
    assert more == b"more"
    assert not alive(int(pid))
    assert agent.server.end is not None
    assert agent.server.end["outcome"] == "agent_lost"
    assert agent.server.end["log_bytes"] == len(agent.server.log)
