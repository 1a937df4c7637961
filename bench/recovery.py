"""Measure how soon a job trains again after its simulated machine was preempted without notice."""

import tempfile
import time
from pathlib import Path
from typing import Any

from bench.cloud import REAL, Cloud, rented
from bench.machines import Journal, job_of
from bench.server import BenchServer, Figure, median_ms

JOBS, TIMES, BOOT_S = 4, 5, 1.0
SPACING_S, WITHIN_S = 0.5, 60.0
SCRIPT = """
import pathlib, time
state = pathlib.Path("state.txt")
step = int(state.read_text()) if state.exists() else 0
while True:
    step += 1
    state.write_text(str(step))
    print(f"step {step} loss={1 / step}", flush=True)
    time.sleep(0.2)
"""
JOB = {
    "code": SCRIPT,
    "checkpoint": {"paths": ["state.txt"]},
    "placement": {"paid": True, "interruptible": "yes"},
}


def measure(_: BenchServer, *, quick: bool = False) -> list[Figure]:
    with tempfile.TemporaryDirectory() as directory:
        jobs, times = (1, 1) if quick else (JOBS, TIMES)
        simulator = (*REAL, "--boot", f"{BOOT_S}s", "--ssh-port", "2423")
        with rented(Path(directory), simulator, paid_attempts=4 * jobs) as (cloud, server):
            return [figure(shares(cloud, server, jobs, times), jobs)]


def shares(cloud: Cloud, server: BenchServer, jobs: int, times: int) -> list[float]:
    """From each machine's being taken to its job's training again, without the boot delay."""
    found = []
    with Journal(server.state / "anygpu.db") as journal:
        for number in range(jobs):
            server.call("POST", "/api/v1/training", {**JOB, "name": f"taken-{number}"})
        journal.wait("TrainingStarted", jobs, WITHIN_S)
        for taken in range(1, jobs * times + 1):
            time.sleep(SPACING_S)
            victim = training(cloud)[taken % jobs]
            cloud.ask(f"preempt/{victim['id']}", {"notice_s": 0})
            journal.wait("TrainingStarted", jobs + taken, WITHIN_S)
            again_at = journal.last("TrainingStarted")[job_of(victim["name"])]
            found.append(again_at - taken_at(cloud, victim) - BOOT_S)
    return found


def training(cloud: Cloud) -> list[dict[str, Any]]:
    """Machines that nobody has taken, in the order of their jobs."""
    left = [
        each for each in cloud.ask("instances") if each["ended_at_ms"] is None and each["taken_at_ms"] is None
    ]
    return sorted(left, key=lambda each: str(each["name"]))


def taken_at(cloud: Cloud, victim: dict[str, Any]) -> float:
    return float(next(e["taken_at_ms"] for e in cloud.ask("instances") if e["id"] == victim["id"])) / 1000


def figure(shares_s: list[float], jobs: int) -> Figure:
    return Figure(
        what="from a lost machine to training on the next one, without its boot time",
        ours=f"median {median_ms(shares_s) / 1000:.2f} s, worst {max(shares_s):.2f} s",
        against=f"boot time {BOOT_S:g} s",
        ratio="",
        target="median under 2 s",
        met=median_ms(shares_s) < 2000,
        how=f"{len(shares_s)} machines lost without notice, one after another; {jobs} jobs, real agents and SSH",
    )
