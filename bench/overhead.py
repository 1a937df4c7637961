"""Measure what anygpu costs a training: CPU of hooks and agent, and the time of one `anygpu.log()` call."""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.server import BenchServer, Figure

TRAINING = """
import os, time, math
import anygpu
start, hooks, step = time.process_time(), 0.0, 0
while time.process_time() - start < float(os.environ["BENCH_CPU_S"]):
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
N = int(sys.argv[1])
for i in range(100): anygpu.log(loss=0.1, step=i)
best = 1e9
for _ in range(5):
    start = time.perf_counter()
    for i in range(N): anygpu.log({"loss": 0.5, "accuracy": 0.9}, step=i)
    best = min(best, (time.perf_counter() - start) / N)
print(json.dumps(best))
"""


def measure(server: BenchServer, *, quick: bool = False) -> list[Figure]:
    return [_share(server, cpu_s=1 if quick else 40), _log_cost(calls=500 if quick else 20_000)]


def _share(server: BenchServer, cpu_s: float) -> Figure:
    spec = {"code": TRAINING, "python": sys.executable, "env": {"BENCH_CPU_S": str(cpu_s)}}
    job = server.call("POST", "/api/v1/training", spec)["id"]
    agent_s = 0.0
    end = time.monotonic() + 120
    while time.monotonic() < end:
        agent_s = agent_cpu_s(server, job) or agent_s
        if server.call("GET", f"/api/v1/training/{job}")["ended_at"]:
            break
        time.sleep(0.1)
    training_s, hooks_s = _reported_cpu_s(server, job)
    share = (agent_s + hooks_s) / training_s
    return Figure(
        what="CPU time of `anygpu` calls and the agent",
        ours=f"{share:.2%}",
        against=f"training: {training_s:.1f} s of CPU time",
        ratio=f"agent {agent_s:.2f} s, calls {hooks_s:.3f} s",
        target="at most 1 %",
        met=share <= 0.01,
        how="steps of about 50 ms with three calls each; includes the start of the agent",
    )


def agent_cpu_s(server: BenchServer, job: str) -> float:
    for path in (server.state / "attempts").glob(f"anygpu-{job.replace('-', '')}-*/agent.json"):
        try:
            pid = json.loads(path.read_text())["pid"]
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        except (OSError, ValueError):
            continue
    return 0.0


def _reported_cpu_s(server: BenchServer, job: str) -> tuple[float, float]:
    connection = server.connect()
    connection.request("GET", f"/api/v1/training/{job}/logs?offset=-200", headers=server.headers)
    line = next(
        line for line in connection.getresponse().read().decode().splitlines() if line.startswith("CPU")
    )
    connection.close()
    _, training, hooks = line.split()
    return float(training), float(hooks)


def _log_cost(calls: int) -> Figure:
    with tempfile.TemporaryDirectory() as directory:
        env = {**os.environ, "ANYGPU_DIR": directory, "ANYGPU_JOB_ID": "bench", "ANYGPU_ATTEMPT": "1"}
        done = subprocess.run(
            [sys.executable, "-c", LOG_COST, str(calls)], env=env, capture_output=True, text=True, check=True
        )
        if not any(Path(directory).iterdir()):
            raise RuntimeError("anygpu.log wrote nothing")
    cost_us = float(json.loads(done.stdout)) * 1e6
    return Figure(
        what="`anygpu.log()` of two metrics",
        ours=f"{cost_us:.1f} µs",
        against="",
        ratio="",
        target="under 15 µs",
        met=cost_us < 15,
        how=f"the fastest of 5 series of {calls:,} calls",
    )
