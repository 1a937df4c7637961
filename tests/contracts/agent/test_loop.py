"""Cancel, stop, timeout; scripts that ignore, fork or daemonise."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
from tests.contracts.agent.agent_process import Agent
from tests.contracts.agent.waiting import alive, until

Play = Callable[..., Agent]

STUBBORN = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(os.getpid(), flush=True)
time.sleep(60)
"""

FORKING = """
import os, time
for _ in range(3):
    if os.fork() == 0:
        break
os.write(1, b"%d\\n" % os.getpid())
time.sleep(60)
"""

DAEMONISING = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.close(0); os.close(1); os.close(2)
        open(os.environ["ANYGPU_DIR"] + "/daemon", "w").write(str(os.getpid()))
        time.sleep(60)
    os._exit(0)
while not os.path.exists(os.environ["ANYGPU_DIR"] + "/daemon"): time.sleep(0.01)
"""


def pids(agent: Agent, count: int) -> list[int]:
    agent.server.wait_for(lambda: agent.server.log.count(b"\n") >= count)
    return [int(line) for line in agent.server.log.split(b"\n")[:count]]


def test_cancel_acts_at_once_and_kills_a_script_that_ignores_it(play: Play) -> None:
    agent = play({"code": STUBBORN, "grace_s": 0.3}, heartbeat_s=1000, lease_s=3000, telemetry_every_s=1000)
    agent.start()
    [pid] = pids(agent, 1)
    until(lambda: ("GET", "/agent/v1/orders") in agent.server.requests)
    agent.server.wait_for(lambda: bool(agent.server.of_kind("telemetry")))  # the last report for a long time
    agent.server.order({"kind": "cancel"})
    assert agent.finish() == 0  # soon, not at the next heartbeat
    assert not alive(pid)
    assert agent.server.end is not None
    assert (agent.server.end["outcome"], agent.server.end["signal"]) == ("cancelled", 9)


KILLED = """
import os, signal, time
signal.signal(signal.SIGTERM, lambda *_: os.kill(os.getpid(), 9))
print(os.getpid(), flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize(
    ("code", "grace_s", "outcome"),
    [(KILLED, 20, "exited"), (STUBBORN, 0.3, "stopped")],
    ids=["others", "agent"],
)
def test_when_another_node_has_failed_only_a_process_that_the_agent_killed_counts_as_stopped(
    play: Play, code: str, grace_s: float, outcome: str
) -> None:
    agent = play({"code": code, "grace_s": grace_s})
    agent.start()
    pids(agent, 1)
    agent.server.order({"kind": "stop", "reason": "peer"})
    assert agent.finish() == 0
    assert agent.server.end is not None
    assert (agent.server.end["outcome"], agent.server.end["signal"]) == (outcome, 9)


def test_every_process_that_a_script_forked_is_killed(play: Play) -> None:
    agent = play({"code": FORKING, "grace_s": 0.5})
    agent.start()
    found = pids(agent, 4)
    agent.server.order({"kind": "cancel"})
    assert agent.finish() == 0
    assert not any(alive(pid) for pid in found)


def test_a_daemonised_child_does_not_outlive_the_job(play: Play) -> None:
    agent = play({"code": DAEMONISING, "grace_s": 0.5})
    assert agent.run() == 0
    pid = int((agent.directory / "channel" / "daemon").read_text())
    until(lambda: not alive(pid))
    assert agent.server.end is not None
    assert agent.server.end["exit_code"] == 0


SAVING = """
import os, signal, sys, time
def save(*_):
    print("saving", flush=True)
    time.sleep(1)
    print("saved", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print("ready", flush=True)
time.sleep(60)
"""
WRAPPERS = ["{0}; echo never", "timeout 60 {0}; echo never", "setsid {0} & wait"]


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_a_script_in_a_shell_gets_sigterm_once_and_its_whole_grace_time(play: Play, wrapper: str) -> None:
    agent = play({"shell": wrapper.format(f"{sys.executable} -c '{SAVING}'"), "grace_s": 20})
    agent.start()
    agent.server.wait_for(lambda: b"ready\n" in agent.server.log)
    agent.server.order({"kind": "cancel"})
    assert agent.finish() == 0
    lines = bytes(agent.server.log).splitlines()
    assert [line for line in lines if not line.startswith(b"[anygpu]")] == [b"ready", b"saving", b"saved"]


def test_a_child_that_keeps_the_output_open_does_not_keep_the_job_open(play: Play) -> None:
    agent = play({"shell": "sleep 600 & echo done", "grace_s": 0.5})
    assert agent.run() == 0  # soon, not when the child ends
    assert bytes(agent.server.log) == b"done\n"


def test_a_stop_lets_the_script_save_and_publishes_what_it_saved(play: Play) -> None:
    code = """
import anygpu, pathlib, time
print("on", flush=True)
step = 0
while not anygpu.should_stop():
    step += 1
    anygpu.log(loss=1 / step, step=step)
    time.sleep(0.02)
pathlib.Path("last.pt").write_bytes(b"state")
anygpu.checkpoint("last.pt", step=step)
"""
    agent = play({"code": code, "grace_s": 5})
    agent.start()
    agent.server.wait_for(lambda: len(agent.server.points()) > 3)
    agent.server.order({"kind": "stop", "reason": "budget"})
    assert agent.finish() == 0
    assert agent.server.end is not None
    assert (agent.server.end["outcome"], agent.server.end["message"]) == ("stopped", "budget")
    [number] = [one for one in agent.server.committed if one in agent.server.checkpoints]
    saved = agent.server.checkpoints[number]
    assert saved["step"] == agent.server.end["step"] == agent.server.points()[-1][1]
    assert agent.server.blobs[saved["files"][0]["sha256"]] == b"state"


def test_a_timeout_ends_a_job_that_does_not_stop_by_itself(play: Play) -> None:
    agent = play({"code": STUBBORN, "grace_s": 0.2, "timeout_s": 5})
    assert agent.run() == 0
    assert agent.server.end is not None
    assert agent.server.end["outcome"] == "timeout"
    assert not alive(int(agent.server.log.split(b"\n")[0]))


def test_cancel_stops_the_set_up(play: Play) -> None:
    agent = play({"setup": ["echo $$; sleep 60"], "code": "print('never')", "grace_s": 0.3})
    agent.start()
    agent.server.wait_for(lambda: agent.server.log.count(b"\n") >= 2)
    agent.server.order({"kind": "cancel"})
    assert agent.finish() == 0
    assert agent.server.end is not None
    assert agent.server.end["outcome"] == "cancelled"
    assert b"never" not in agent.server.log
