"""What watching costs the training: CPU of hooks and agent, and the price of one `anygpu.log()`."""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.stage import Figure, Stage

TRAINING = """
import os, time, math
import anygpu
start, hooks, step = time.process_time(), 0.0, 0
while time.process_time() - start < 40:
    total = 0.0
    for i in range(300_000):
        total += math.sin(i) * math.cos(step)
    step += 1
    before = time.thread_time()
    anygpu.log({"loss": abs(total), "lr": 0.1}, step=step)
    anygpu.progress(step=step)
    anygpu.should_stop()
    hooks += time.thread_time() - before
    if step % 5 == 0:
        print(f"step {step} loss {abs(total):.4f}", flush=True)
print("CPU", time.process_time() - start, hooks, flush=True)
"""

LOG_COST = """
import json, sys, time, anygpu
N = 20000
for i in range(100): anygpu.log(loss=0.1, step=i)
best = 1e9
for _ in range(5):
    start = time.perf_counter()
    for i in range(N): anygpu.log({"loss": 0.5, "accuracy": 0.9}, step=i)
    best = min(best, (time.perf_counter() - start) / N)
print(json.dumps(best))
"""


def measure(stage: Stage) -> list[Figure]:
    return [_share(stage), _log_cost()]


def _share(stage: Stage) -> Figure:
    job = stage.call("POST", "/api/v1/training", {"code": TRAINING, "python": sys.executable})["id"]
    cpu_s, view = 0.0, {}
    end = time.monotonic() + 120
    while time.monotonic() < end:
        cpu_s = agent_cpu_s(stage, job) or cpu_s
        view = stage.call("GET", f"/api/v1/training/{job}")
        if view["ended_at"]:
            break
        time.sleep(0.1)
    training_s, hooks_s = _said(stage, job)
    share = (cpu_s + hooks_s) / training_s
    return Figure(
        what="CPU of hooks and agent in training",
        ours=f"{share:.2%}",
        against=f"training {training_s:.1f} s CPU",
        ratio=f"agent {cpu_s:.2f} s, hooks {hooks_s:.3f} s",
        target="at most 1 %",
        met=share <= 0.01,
        how="steps of about 50 ms, three calls each; the agent's start-up included",
    )


def agent_cpu_s(stage: Stage, job: str) -> float:
    for path in (stage.state / "attempts").glob(f"anygpu-{job.replace('-', '')}-*/agent.json"):
        try:
            pid = json.loads(path.read_text())["pid"]
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        except (OSError, ValueError):
            continue
    return 0.0


def _said(stage: Stage, job: str) -> tuple[float, float]:
    connection = stage.connect()
    connection.request("GET", f"/api/v1/training/{job}/logs?offset=-200", headers=stage.headers)
    line = next(
        line for line in connection.getresponse().read().decode().splitlines() if line.startswith("CPU")
    )
    connection.close()
    _, training, hooks = line.split()
    return float(training), float(hooks)


def _log_cost() -> Figure:
    with tempfile.TemporaryDirectory() as directory:
        env = {**os.environ, "ANYGPU_DIR": directory, "ANYGPU_JOB_ID": "bench", "ANYGPU_ATTEMPT": "1"}
        done = subprocess.run(
            [sys.executable, "-c", LOG_COST], env=env, capture_output=True, text=True, check=True
        )
        if not any(Path(directory).iterdir()):
            raise RuntimeError("anygpu.log wrote nothing")
    cost_us = float(json.loads(done.stdout)) * 1e6
    return Figure(
        what="`anygpu.log()` of two metrics",
        ours=f"{cost_us:.1f} µs",
        against="one write(2) to the kernel",
        ratio="",
        target="under 15 µs",
        met=cost_us < 15,
        how="best of 5 x 20,000 calls",
    )
