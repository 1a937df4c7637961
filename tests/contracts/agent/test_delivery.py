"""Reports of an agent that died are delivered by another one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.contracts.agent.agent_process import Agent
from tests.contracts.agent.waiting import alive, spooled, until

from anygpu.agent import exit_codes

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
    until(lambda: b"more" in spooled(agent.directory))
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


def test_an_end_report_that_the_server_refuses_is_sent_again_without_its_optional_fields(play: Play) -> None:
    agent = play({"code": "print('Epoch 1/1 loss=0.5')"})
    accept, sent = agent.server._end, []

    def refuse_optional_fields(request: dict[str, Any]) -> tuple[int, Any]:
        sent.append(request)
        if {"step", "message"} & request.keys():
            return 422, {"code": "invalid_report", "title": "a field is out of range"}
        return accept(request)

    agent.server._end = refuse_optional_fields  # type: ignore[method-assign]
    assert agent.run() == 0
    assert len(sent) == 2
    assert agent.server.end == {
        "outcome": "exited",
        "exit_code": 0,
        "signal": None,
        "last_seq": sent[0]["last_seq"],
    }


def test_an_end_report_that_is_always_refused_ends_the_agent_without_a_traceback(play: Play) -> None:
    agent = play({"code": "pass"})
    agent.server._end = lambda request: (422, {"code": "invalid_report"})  # type: ignore[method-assign]
    assert agent.run() == exit_codes.UNDELIVERED


def test_reports_that_the_server_has_lost_do_not_prevent_the_end(play: Play) -> None:
    agent = play({"code": "print('hello')"})
    accept = agent.server._end

    def refuse_gap(request: dict[str, Any]) -> tuple[int, Any]:
        return (409, {"code": "gap", "expected": 1}) if request["last_seq"] > 0 else accept(request)

    agent.server._end = refuse_gap  # type: ignore[method-assign]
    assert agent.run() == 0
    assert agent.server.end is not None
    assert agent.server.end["last_seq"] == 0
