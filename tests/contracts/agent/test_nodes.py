"""A node of an attempt on several nodes: its end, and how it leaves."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest
from tests.contracts.agent.agent_process import Agent
from tests.contracts.agent.job_files import sha
from tests.contracts.agent.test_restore import resume
from tests.contracts.agent.waiting import until

Play = Callable[..., Agent]

RANKS = {"node": 1, "nodes": 2, "launcher": "none", "processes_per_node": 1}


@pytest.fixture
def launch(play: Play) -> Callable[..., Agent]:
    """launch(code) -> an agent of node 1 of 2, whose server lets all nodes start at once."""

    def build(code: str, **work: Any) -> Agent:
        return play({"code": code, "ranks": RANKS, **work})

    return build


@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_node_says_whether_it_has_the_checkpoint(launch: Callable[..., Agent], is_damaged: bool) -> None:
    agent = launch("print('done')")
    agent.server.work["resume"] = resume(agent.server, {"last.pt": b"weights"}, 4)
    if is_damaged:
        agent.server.blobs[sha(b"weights")] = b"garbage"
    assert agent.run() == 0
    assert [request["restored"] for request in agent.server.readiness] == [not is_damaged]


def test_a_node_does_not_start_if_another_one_lacks_the_checkpoint(launch: Callable[..., Agent]) -> None:
    agent = launch("print('done')")
    agent.server.work["resume"] = resume(agent.server, {"last.pt": b"weights"}, 4)
    agent.server.lets_nodes_start = False
    agent.start()
    agent.server.wait_for(lambda: bool(agent.server.readiness))
    agent.server.order({"kind": "cancel", "reason": "ended"})
    assert agent.finish() == 0
    assert agent.server.end is not None
    assert agent.server.end["outcome"] == "cancelled"
    assert b"done" not in agent.server.log


def test_a_node_that_resumes_from_nothing_says_nothing_about_it(launch: Callable[..., Agent]) -> None:
    agent = launch("print('done')")
    assert agent.run() == 0
    assert [sorted(request) for request in agent.server.readiness] == [["address", "port"]]


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


def test_a_node_that_must_stop_says_so_until_the_server_has_heard_it(launch: Callable[..., Agent]) -> None:
    agent = launch("import time\nprint('on', flush=True)\ntime.sleep(120)", grace_s=60)
    faults = {1: "cut", 2: "500", 3: "drop"}
    agent.server.fault = lambda path, count: faults.get(count) if path == "/agent/v1/leave" else None
    process = agent.start()
    agent.server.wait_for(lambda: b"on\n" in agent.server.log)
    process.send_signal(signal.SIGTERM)
    agent.server.wait_for(lambda: len(agent.server.departures) == 2)  # one was heard and not answered
    assert agent.server.departures[0] == {"message": "preempt"}
    agent.server.order({"kind": "cancel"})
    assert agent.finish() == 0
    assert agent.server.requests.count(("POST", "/agent/v1/leave")) == 4
