"""A node of an attempt on several nodes: its end, and how it leaves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.contracts.agent.agent_process import Agent
from tests.contracts.agent.waiting import until

Play = Callable[..., Agent]

RANKS = {"node": 1, "nodes": 2, "launcher": "none", "processes_per_node": 1}


@pytest.fixture
def launch(play: Play) -> Callable[..., Agent]:
    """launch(code) -> an agent of node 1 of 2, whose server lets all nodes start at once."""

    def build(code: str, **work: Any) -> Agent:
        return play({"code": code, "ranks": RANKS, **work})

    return build


def order_polls(agent: Agent) -> int:
    return agent.server.requests.count(("GET", "/agent/v1/orders"))


def test_a_node_stays_until_the_attempt_has_ended_on_all_nodes(launch: Callable[..., Agent]) -> None:
    agent = launch("print('done')")
    agent.server.other_nodes_run = True
    process = agent.start()
    agent.server.wait_for(lambda: agent.server.end is not None)
    until(lambda: order_polls(agent) == 2)  # the first is answered at once
    agent.server.order({"kind": "cancel"})
    until(lambda: order_polls(agent) == 3)
    assert process.poll() is None
    agent.server.order({"kind": "cancel", "reason": "ended"})
    assert agent.finish() == 0
