"""Faults between the agent and its server: no acknowledged report is lost, none arrives twice."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.contracts.agent.agent_process import Agent
from tests.contracts.agent.waiting import alive, until

Play = Callable[..., Agent]

COUNTING = "import time\nfor i in range(200):\n    print(i, flush=True)\n    time.sleep(0.004)\n"
COUNTED = "".join(f"{i}\n" for i in range(200)).encode()

TALKING_LATER = """
import os, time
print(os.getpid(), flush=True)
time.sleep(0.3)
print("more", flush=True)
time.sleep(60)
"""


def test_faults_of_the_connection_neither_lose_nor_duplicate_reports(play: Play) -> None:
    agent = play({"code": COUNTING})
    agent.server.fault = lambda path, count: {1: "500", 2: "drop", 3: "cut", 4: None}[count % 4 + 1]
    assert agent.run() == 0
    assert bytes(agent.server.log) == COUNTED
    assert agent.server.end is not None
    assert agent.server.end["log_bytes"] == len(COUNTED)


def test_a_server_gets_all_reports_after_an_outage(play: Play) -> None:
    agent = play({"code": COUNTING})
    agent.start()
    agent.server.wait_for(lambda: len(agent.server.log) > 20)
    agent.server.stop()
    time.sleep(0.5)
    agent.server.listen()
    assert agent.finish() == 0
    assert bytes(agent.server.log) == COUNTED


def test_after_a_gap_the_agent_sends_the_expected_report(play: Play) -> None:
    agent = play({"code": COUNTING})
    gaps = []

    def say_gap(path: str, count: int) -> None:
        if path.endswith("/reports") and count == 3:
            gaps.append(agent.server.expected)

    agent.server.fault = say_gap
    original = agent.server._reports

    def reports(body: bytes, query: dict[str, str]) -> tuple[int, object]:
        if gaps:
            return 409, {"code": "gap", "expected": gaps.pop()}
        return original(body, query)

    agent.server._reports = reports  # type: ignore[method-assign]
    assert agent.run() == 0
    assert bytes(agent.server.log) == COUNTED


def test_a_server_that_lost_acknowledged_reports_gets_the_rest_and_the_end(play: Play) -> None:
    """Its database was restored from a backup, for example."""
    pause = "    while i == 100 and not os.path.exists('go'): time.sleep(0.02)\n"
    agent = play({"code": f"import os\n{COUNTING}{pause}"})
    agent.start()
    agent.server.wait_for(lambda: len(agent.server.log) > 50)
    with agent.server.changed:
        agent.server.expected = 1
        agent.server.log.clear()
    (agent.directory / "work" / "go").touch()
    assert agent.finish() == 0
    assert bytes(agent.server.log) == COUNTED, "what it had lost was still on the agent's disk"
    assert agent.server.end is not None
    assert (agent.server.end["outcome"], agent.server.end["exit_code"]) == ("exited", 0)


def test_a_lost_lease_stops_the_job_and_its_reports_are_delivered_later(play: Play) -> None:
    agent = play(
        {"code": "import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(60)"},
        lease_s=4,
        heartbeat_s=0.5,
    )
    agent.start()
    agent.server.wait_for(lambda: agent.server.log.endswith(b"\n"))
    pid = int(agent.server.log)
    agent.server.stop()
    until(lambda: not alive(pid))
    agent.server.listen()
    assert agent.finish() == 0
    assert agent.server.end is not None
    assert agent.server.end["outcome"] == "lease_lost"


def test_a_job_survives_the_errors_of_a_proxy(play: Play) -> None:
    """An ingress that reloads answers 404 for a moment."""
    agent = play({"code": COUNTING})
    agent.server.fault = lambda path, count: 404 if count in (2, 3, 4) else None
    assert agent.run() == 0
    assert bytes(agent.server.log) == COUNTED
    assert agent.server.end is not None
    assert (agent.server.end["outcome"], agent.server.end["exit_code"]) == ("exited", 0)


def test_a_rejected_agent_stops_the_job_and_exits(play: Play) -> None:
    agent = play({"code": TALKING_LATER}, heartbeat_s=0.2)
    agent.start()
    agent.server.wait_for(lambda: agent.server.log.endswith(b"\n"))
    agent.server.rejecting = 401
    assert agent.finish() == 77
    assert not alive(int(agent.server.log.split(b"\n")[0]))
    assert agent.server.end is None


def test_a_refused_report_does_not_block_later_ones(play: Play) -> None:
    agent = play(
        {"code": "import anygpu, time\nanygpu.log(bad=1)\ntime.sleep(0.3)\nprint('after', flush=True)"}
    )
    original = agent.server._reports

    def reports(body: bytes, query: dict[str, str]) -> tuple[int, object]:
        return (422, {"code": "invalid_report"}) if b'"bad"' in body else original(body, query)

    agent.server._reports = reports  # type: ignore[method-assign]
    assert agent.run() == 0
    assert (
        bytes(agent.server.log)
        == b"[anygpu] The server refused a part of this job's output or metrics: 422 invalid_report\nafter\n"
    )
    assert agent.server.end is not None
    assert (agent.server.end["metric_points"], agent.server.end["log_bytes"]) == (0, len(agent.server.log))
