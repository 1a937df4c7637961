"""The output of several ranks of one machine with the real torchrun: kept apart, and metrics of rank 0 only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.contracts.agent.agent_process import Agent
from tests.contracts.agent.fake_server import FakeServer

RANKS = 3
STEPS = 20
TRAINING = f"""
import os, sys, time
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
for step in range(1, {STEPS + 1}):
    loss = torch.tensor(float(rank))
    dist.all_reduce(loss)
    print(f"step={{step}} loss={{step + 100 * rank + 0.5}} sum={{loss.item():g}}", flush=True)
sys.stderr.write(f"rank {{rank}} of {{dist.get_world_size()}} done\\n")
"""


@pytest.fixture
def train(tmp_path: Path) -> Iterator[Callable[[str], Agent]]:
    """train(code) -> an agent that has run the code with torchrun."""
    ranks = {"node": 0, "nodes": 1, "launcher": "torchrun", "processes_per_node": RANKS}
    agents: list[Agent] = []

    def run(code: str) -> Agent:
        work: dict[str, Any] = {"code": code, "ranks": ranks, "python": sys.executable}
        with FakeServer(work, deliver_s=60).listening() as server:
            agents.append(Agent(server, tmp_path / "attempt"))
            agents[-1].start()
            assert agents[-1].finish(300) == 0
        return agents[-1]

    yield run
    for agent in agents:
        agent.end()


@pytest.mark.timeout(400)
def test_each_step_has_one_point_of_rank_0_and_each_line_its_rank(train: Callable[[str], Agent]) -> None:
    agent = train(TRAINING + "dist.destroy_process_group()\n")
    assert agent.server.end is not None
    assert agent.server.end["exit_code"] == 0
    losses = [(point[1], point[3]) for point in agent.server.points() if point[0] == "loss"]
    assert losses == [(step, step + 0.5) for step in range(1, STEPS + 1)]
    assert agent.server.end["step"] == STEPS
    lines = bytes(agent.server.log).decode().splitlines()
    for rank in range(RANKS):
        prefix = f"[rank {rank}] " if rank else ""
        for step in range(1, STEPS + 1):
            assert lines.count(f"{prefix}step={step} loss={step + 100 * rank + 0.5} sum=3") == 1
        assert lines.count(f"{prefix}rank {rank} of {RANKS} done") == 1


SLOW_TO_STOP = """
import os, signal, sys, time
asked = []
def stop(*_):
    asked.append(1)
    print("stopping", flush=True)
signal.signal(signal.SIGTERM, stop)
print("ready", flush=True)
while len(asked) < 2:
    if os.environ["RANK"] == "2" and os.path.exists(os.environ["ANYGPU_DIR"] + "/kill"):
        os.kill(os.getpid(), 9)
    time.sleep(0.05)
sys.exit(1)
"""


@pytest.mark.timeout(400)
def test_a_killed_rank_is_reported_although_another_node_has_failed_before(tmp_path: Path) -> None:
    ranks = {"node": 0, "nodes": 1, "launcher": "torchrun", "processes_per_node": RANKS}
    work = {"code": SLOW_TO_STOP, "ranks": ranks, "python": sys.executable, "grace_s": 60}
    with FakeServer(work).listening() as server:
        agent = Agent(server, tmp_path / "attempt")
        agent.start()
        try:
            server.wait_for(lambda: server.log.count(b"ready\n") == RANKS, 180)
            (agent.directory / "channel" / "kill").touch()
            server.wait_for(lambda: server.log.count(b"stopping\n") == RANKS - 1, 180)
            server.order({"kind": "stop", "reason": "peer"})
            assert agent.finish(120) == 0
        finally:
            agent.end()
    assert server.end is not None
    assert (server.end["outcome"], server.end["exit_code"]) == ("exited", 128 + 9)


@pytest.mark.timeout(400)
def test_a_rank_that_is_killed_is_reported_with_its_last_line(train: Callable[[str], Agent]) -> None:
    killed = (
        "if rank == 2:\n    print('last words', flush=True)\n    os.kill(os.getpid(), 9)\ntime.sleep(600)\n"
    )
    agent = train(TRAINING + killed)
    assert b"[rank 2] last words\n" in agent.server.log
    assert agent.server.end is not None
    assert agent.server.end["exit_code"] == 128 + 9
    assert agent.server.end["message"] == "a process of torchrun was killed by signal 9"
    assert b"code.py FAILED" in agent.server.log
