"""An attempt from the claim to the end."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.contracts.agent.agent_process import Agent

Play = Callable[..., Agent]


def test_output_is_delivered_byte_for_byte_and_the_end_is_reported(play: Play) -> None:
    agent = play({"code": "print('hello')\nimport sys; sys.stderr.write('and errors\\n')"})
    assert agent.run() == 0
    server = agent.server
    assert bytes(server.log) == b"hello\nand errors\n"
    assert [frame["phase"] for frame in server.of_kind("phase")] == ["training", "finishing"]
    assert server.end is not None
    assert (server.end["outcome"], server.end["exit_code"]) == ("exited", 0)
    assert server.end["log_bytes"] == len(server.log)
    assert server.end["last_seq"] == server.expected - 1


def test_the_exit_code_and_the_last_line_are_reported(play: Play) -> None:
    agent = play({"argv": ["python", "-c", "raise ValueError('no such optimiser')"]})
    assert agent.run() == 0
    assert agent.server.end is not None
    assert agent.server.end["exit_code"] == 1
    assert agent.server.end["message"] == "ValueError: no such optimiser"


def test_a_shell_line_runs_in_the_working_directory(play: Play) -> None:
    agent = play({"shell": "pwd; echo $ANYGPU_JOB_ID-$ANYGPU_ATTEMPT"})
    assert agent.run() == 0
    assert bytes(agent.server.log).decode() == f"{agent.directory}/work\njob-1-1\n"


STOPPABLE = """
import anygpu, time
print("on", flush=True)
while not anygpu.should_stop():
    time.sleep(0.02)
print("saved")
"""


def test_sigterm_to_the_agent_stops_the_job_as_a_preemption(play: Play) -> None:
    agent = play({"code": STOPPABLE})
    process = agent.start()
    agent.server.wait_for(lambda: bool(agent.server.log))
    process.send_signal(signal.SIGTERM)
    assert agent.finish() == 0
    assert agent.server.log.endswith(b"saved\n")
    assert agent.server.end is not None
    assert (agent.server.end["outcome"], agent.server.end["message"]) == ("stopped", "preempt")


def test_the_job_inherits_the_locks_on_gpu_slots(play: Play, tmp_path: Path) -> None:
    slot = os.open(tmp_path / "slot", os.O_CREAT | os.O_RDWR)
    os.set_inheritable(slot, True)
    agent = play({"code": f"import os\nprint(os.fstat({slot}).st_ino)"})
    command = [*agent.command(), str(agent.directory)]
    process = subprocess.Popen(command, pass_fds=[slot], env={**os.environ, "ANYGPU_HOLD_FDS": str(slot)})
    assert process.wait(timeout=20) == 0
    assert int(agent.server.log) == os.fstat(slot).st_ino
    os.close(slot)
