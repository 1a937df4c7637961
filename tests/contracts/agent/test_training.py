"""Output in every form, secrets in it, and reports of the script through `import anygpu`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from tests.contracts.agent.agent_process import Agent
from tests.contracts.agent.waiting import until

Play = Callable[..., Agent]


def test_binary_output_is_delivered_unchanged(play: Play) -> None:
    agent = play({"code": "import os\nos.write(1, bytes(range(256)) * 1000)"})
    assert agent.run() == 0
    assert bytes(agent.server.log) == bytes(range(256)) * 1000


def test_a_secret_split_over_writes_is_masked(play: Play) -> None:
    code = """
import os, time
secret = os.environ["TOKEN"]
for part in ("key=", secret[:2], secret[2:9], secret[9:], "; again " + secret + " and " + secret[:6]):
    os.write(1, part.encode())
    time.sleep(0.15)
"""
    agent = play({"code": code, "secrets": {"TOKEN": "sk-0123456789abcdef"}})
    assert agent.run() == 0
    assert bytes(agent.server.log) == b"key=***; again *** and ***"


def test_the_job_does_not_see_the_agents_environment(play: Play) -> None:
    names = ("AWS_SECRET_ACCESS_KEY", "A", "HF_TOKEN", "CUDA_VISIBLE_DEVICES")
    code = f"import os\nprint(sorted(name for name in os.environ if name in {names}))"
    agent = play({"code": code, "env": {"A": "b"}, "secrets": {"HF_TOKEN": "hf_value"}})
    assert agent.run(AWS_SECRET_ACCESS_KEY="leak", CUDA_VISIBLE_DEVICES="1") == 0
    assert bytes(agent.server.log) == b"['A', 'CUDA_VISIBLE_DEVICES', 'HF_TOKEN']\n"


def test_metrics_survive_sigkill_of_the_script(play: Play) -> None:
    code = """
import anygpu, os, signal
for step in range(1000):
    anygpu.log(loss=1.0 / (step + 1), step=step)
anygpu.log({"odd": float("nan"), "big": float("inf")}, step=1000)
os.kill(os.getpid(), signal.SIGKILL)
"""
    agent = play({"code": code})
    assert agent.run() == 0
    points = agent.server.points()
    assert [point[1] for point in points if point[0] == "loss"] == list(range(1000))
    assert points[-2][3] == "NaN"
    assert points[-1][3] == "Infinity"
    assert agent.server.end is not None
    assert (agent.server.end["signal"], agent.server.end["metric_points"]) == (9, 1002)
    assert agent.server.end["step"] == 1000


def test_metrics_are_read_from_the_output(play: Play) -> None:
    agent = play({"code": "for e in range(1, 4): print(f'Epoch: {e}/3 loss={1/e:.3f} acc: 0.9', flush=True)"})
    assert agent.run() == 0
    losses = [point[3] for point in agent.server.points() if point[0] == "loss"]
    assert losses == [1.0, 0.5, 0.333]
    assert agent.server.of_kind("progress")[-1]["epoch"] == 3


def test_the_last_values_of_a_script_that_prints_too_fast_are_right(play: Play) -> None:
    """200,000 lines take far longer to parse than the budget and the backlog allow."""
    code = """
import sys
for e in range(1, 200_001):
    sys.stdout.write(f"Epoch {e}/200000 loss={e / 4:.2f}\\n")
    if e == 70_000:
        sys.stdout.write("val_loss: 0.125\\n")
"""
    agent = play({"code": code})
    assert agent.run() == 0
    last = {name: value for name, _, _, value in agent.server.points()}
    assert last == {"loss": 50_000.0, "val_loss": 0.125}
    progress = agent.server.of_kind("progress")[-1]
    assert (progress["epoch"], progress["epochs"], progress["fraction"]) == (200_000, 200_000, 1.0)
    told = bytes(agent.server.log).splitlines()[-1].decode()
    assert re.fullmatch(r"\[anygpu\] [\d,]+ of 200,001 lines were not parsed for metrics, because .*", told)


def test_a_script_that_logs_and_prints_too_fast_gets_no_advice_to_log(play: Play) -> None:
    code = """
import anygpu, sys
for e in range(1, 200_001):
    sys.stdout.write(f"Epoch {e}/200000 loss={e / 4:.2f}\\n")
anygpu.log(loss=1.0, step=1)
print("last line")
"""
    agent = play({"code": code})
    assert agent.run() == 0
    assert bytes(agent.server.log).splitlines()[-1] == b"last line"


def test_the_output_of_a_script_that_logs_is_not_parsed(play: Play) -> None:
    code = """
import anygpu, time
for epoch in range(1, 4):
    anygpu.log(loss=epoch, step=epoch)
    time.sleep(0.1)
    print(f"Epoch: {epoch}/3 loss=9", flush=True)
"""
    agent = play({"code": code})
    assert agent.run() == 0
    assert [point[3] for point in agent.server.points()] == [1.0, 2.0, 3.0]


def test_a_full_spool_keeps_both_ends_of_the_output_and_says_what_is_missing(play: Play) -> None:
    code = """
import os, sys, anygpu, time
print("first line", flush=True)
while not os.path.exists("go"): time.sleep(0.01)
line = "x" * 99 + "\\n"
for i in range(60):
    sys.stdout.write(line * 10_000)
    anygpu.log(i=i, step=i)
open("written", "w").close()
print("last line")
"""
    agent = play({"code": code, "spool_limit_bytes": 4_000_000}, lease_s=200)
    agent.start()
    agent.server.wait_for(lambda: bytes(agent.server.log).startswith(b"first line"))
    agent.server.stop()
    (agent.directory / "work" / "go").touch()
    until((agent.directory / "work" / "written").exists, timeout_s=120)
    agent.server.listen()
    assert agent.finish() == 0
    log = bytes(agent.server.log)
    assert len(log) < 10_000_000
    assert log.endswith(b"last line\n")
    assert b"bytes of output were dropped here because the server could not be reached" in log
    assert [point[1] for point in agent.server.points()] == list(range(60))
    assert agent.server.end is not None
    assert agent.server.end["log_bytes"] == len(log)


def test_the_first_line_is_sent_at_once(play: Play) -> None:
    """Printed to stored at the server; the bound is generous because test machines are busy."""
    code = "import time\ntime.sleep(0.3)\nprint(repr(time.monotonic()), flush=True)\ntime.sleep(0.5)"
    took = []
    for _ in range(3):
        agent = play({"code": code}, report_every_s=5)
        assert agent.run() == 0
        kinds = [frame["kind"] for frame in agent.server.frames]
        arrived = agent.server.arrived_at[kinds.index("log")]
        took.append(arrived - float(agent.server.log))
    assert min(took) < 2.5  # not at the next report, which is 5 s away


def test_telemetry_is_reported(play: Play) -> None:
    agent = play({"code": "import time\ntime.sleep(2.5)"}, telemetry_every_s=0.5)
    assert agent.run() == 0
    measured = agent.server.of_kind("telemetry")[-1]
    assert 0 <= measured["cpu"] <= 1
    assert measured["memory"]["total"] > measured["memory"]["used"] > 0
    assert measured["disk"]["total"] > 0
    assert math.isfinite(measured["at"])


def test_the_end_of_a_killed_job_has_its_peak_memory(play: Play) -> None:
    code = """
import os, signal
data = bytearray(b"x") * (200 * 2**20)
os.kill(os.getpid(), signal.SIGKILL)
"""
    agent = play({"code": code})
    assert agent.run() == 0
    assert agent.server.end is not None
    memory = agent.server.end["memory"]
    assert 200 * 2**20 <= memory["peak"] < memory["limit"]
    assert memory["oom_killed"] in (False, None)


def test_the_end_of_a_job_that_succeeds_has_no_memory(play: Play) -> None:
    agent = play({"code": "print(1)"})
    assert agent.run() == 0
    assert agent.server.end is not None
    assert "memory" not in agent.server.end
