"""Faults between the agent and its server: nothing acknowledged is lost, nothing arrives twice."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from tests.contracts.agent.agent_process import Agent

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
STOPPABLE = """
import anygpu, time
print("on", flush=True)
while not anygpu.should_stop():
    time.sleep(0.02)
print("saved")
"""


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def until(truth: Callable[[], bool], timeout_s: float = 10.0) -> None:
    limit = time.monotonic() + timeout_s
    while not truth():
        assert time.monotonic() < limit, "never came true"
        time.sleep(0.02)


def test_dropped_answers_errors_and_cut_connections_double_and_lose_nothing(play: Play) -> None:
    agent = play({"code": COUNTING})
    agent.server.fault = lambda path, count: {1: "500", 2: "drop", 3: "cut", 4: None}[count % 4 + 1]
    assert agent.run() == 0
    assert bytes(agent.server.log) == COUNTED
    assert agent.server.end is not None
    assert agent.server.end["log_bytes"] == len(COUNTED)


def test_a_server_that_was_away_gets_everything_when_it_is_back(play: Play) -> None:
    agent = play({"code": COUNTING})
    agent.start()
    agent.server.wait_for(lambda: len(agent.server.log) > 20)
    agent.server.stop()
    time.sleep(0.5)
    agent.server.listen()
    assert agent.finish() == 0
    assert bytes(agent.server.log) == COUNTED


def test_a_gap_sends_the_agent_back_to_what_the_server_expects(play: Play) -> None:
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


def test_a_lost_lease_ends_the_job_and_its_words_are_delivered_later(play: Play) -> None:
    agent = play(
        {"code": "import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(60)"},
        lease_s=0.8,
        heartbeat_s=0.2,
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


def test_an_agent_that_is_nobody_ends_the_job_and_leaves(play: Play) -> None:
    agent = play({"code": TALKING_LATER}, heartbeat_s=0.2)
    agent.start()
    agent.server.wait_for(lambda: agent.server.log.endswith(b"\n"))
    agent.server.rejecting = 401
    assert agent.finish() == 77
    assert not alive(int(agent.server.log.split(b"\n")[0]))
    assert agent.server.end is None


def test_what_a_killed_agent_left_is_delivered_and_its_job_ended(play: Play) -> None:
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


def test_a_twin_in_the_same_directory_leaves_at_once(play: Play) -> None:
    agent = play({"code": "import time\nprint('x', flush=True)\ntime.sleep(60)"})
    first = agent.start()
    agent.server.wait_for(lambda: bool(agent.server.log))
    assert agent.run() == 75
    agent.server.order({"kind": "cancel"})
    assert first.wait(30) == 0


def test_a_twin_on_another_machine_is_told_that_it_is_second(play: Play, tmp_path: Path) -> None:
    agent = play({"code": "print('x')"})
    assert agent.run() == 0
    assert Agent(agent.server, tmp_path / "twin").run() == 75


def test_the_claim_waits_for_a_server_that_is_not_there_yet(play: Play) -> None:
    agent = play({"code": "print('at last')"})
    agent.server.stop()
    agent.start()
    time.sleep(0.3)
    agent.server.listen()
    assert agent.finish() == 0
    assert bytes(agent.server.log) == b"at last\n"


def test_sigterm_to_the_agent_stops_the_job_politely_as_a_preemption(play: Play) -> None:
    agent = play({"code": STOPPABLE})
    process = agent.start()
    agent.server.wait_for(lambda: bool(agent.server.log))
    process.send_signal(signal.SIGTERM)
    assert agent.finish() == 0
    assert agent.server.log.endswith(b"saved\n")
    assert agent.server.end is not None
    assert (agent.server.end["outcome"], agent.server.end["message"]) == ("stopped", "preempt")


def test_locks_on_gpu_slots_are_held_by_the_job_itself(play: Play, tmp_path: Path) -> None:
    slot = os.open(tmp_path / "slot", os.O_CREAT | os.O_RDWR)
    os.set_inheritable(slot, True)
    agent = play({"code": f"import os\nprint(os.fstat({slot}).st_ino)"})
    command = [*agent.command(), str(agent.directory)]
    process = subprocess.Popen(command, pass_fds=[slot], env={**os.environ, "ANYGPU_HOLD_FDS": str(slot)})
    assert process.wait(timeout=20) == 0
    assert int(agent.server.log) == os.fstat(slot).st_ino
    os.close(slot)


def test_a_report_that_is_refused_for_good_does_not_hold_up_those_that_follow(play: Play) -> None:
    agent = play(
        {"code": "import anygpu, time\nanygpu.log(bad=1)\ntime.sleep(0.3)\nprint('after', flush=True)"}
    )
    original = agent.server._reports

    def reports(body: bytes, query: dict[str, str]) -> tuple[int, object]:
        return (422, {"code": "invalid_report"}) if b'"bad"' in body else original(body, query)

    agent.server._reports = reports  # type: ignore[method-assign]
    assert agent.run() == 0
    assert bytes(agent.server.log) == b"[anygpu] the server refused a report: 422 invalid_report\nafter\n"
    assert agent.server.end is not None
    assert (agent.server.end["metric_points"], agent.server.end["log_bytes"]) == (0, len(agent.server.log))
