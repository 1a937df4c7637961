"""Measure one server with 200 jobs on a real Slurm, and how fast a job starts there.

The lag of a decision is the time from when `scancel` has returned, so that Slurm shows the jobs as cancelled or ending,
to when others can read the event `AttemptLost` in the database. It includes the wait for the next query of the queue,
the query itself, the decision and the commit. The stub agents do not notice that they are killed. A real agent gets a
SIGTERM and reports the end of its job at once.
"""

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from scripts.clusters.slurm import HIGH, SlurmCluster, install

from bench.machines import Journal, idle_load
from bench.server import BenchServer, Figure, median_ms, quantile_ms, start_server, stop_process
from bench.start import SCRIPT, submit_and_wait

JOBS, CANCELLED = 200, 50
ALL_TRAIN_S, AGAIN_S, SETTLE_S = 240.0, 180.0, 12.0
ROUNDS = 9
POLL_S = 1.0
PLACEMENT = {"allowed": ["lab"]}
JOB = {"command": "train", "checkpoint": {"paths": ["state.pt"]}, "placement": PLACEMENT}
# Takes the place of Python on the nodes: it gives the attempt's directory to the stub agents, and keeps the job alive.
STUB_PYTHON = """#!/bin/sh
case "$*" in *" -c "*) exit 0;; esac
for last; do :; done
printf '%s\\n' "$last" > {fifo}
exec sleep 100000
"""


def measure(*, quick: bool = False) -> list[Figure]:
    problem = install()
    if problem:
        return [Figure(what="Slurm", ours="not measured", target="", met=True, how=problem)]
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        with SlurmCluster(folder / "cluster", nodes=4, cpus=80, gpus=0, accounting=False) as cluster:
            start = measure_start(cluster, folder / "start", rounds=2 if quick else ROUNDS)
            jobs, cancelled = (10, 3) if quick else (JOBS, CANCELLED)
            settle_s = 0.5 if quick else SETTLE_S
            return [start, *measure_jobs(cluster, folder / "jobs", jobs, cancelled, settle_s)]


@contextlib.contextmanager
def serve(cluster: SlurmCluster, folder: Path, **options: Any) -> Iterator[BenchServer]:
    """Run a server whose only backend is the cluster, with local commands."""
    folder.mkdir(parents=True, exist_ok=True)
    every = {
        "kind": "slurm",
        "directory": str(folder / "shared"),
        "partitions": [HIGH],
        "poll_s": POLL_S,
        "relay": "",
        **options,
    }
    lines = [f"{name} = {json.dumps(value)}" for name, value in every.items()]
    (folder / "config.toml").write_text("\n".join(["[backends.lab]", *lines, ""]))
    with start_server(folder, ANYGPU_LOCAL__ENABLED="false", **cluster.variables) as server:
        yield server


def measure_start(cluster: SlurmCluster, folder: Path, rounds: int) -> Figure:
    """Compare a job with a bare `sbatch` that runs the same Python program."""
    bare, ours = [], []
    with serve(cluster, folder, python=sys.executable) as server:
        submit_and_wait(server, placement=PLACEMENT)
        for number in range(rounds):
            bare.append(_run_bare_job(cluster, folder, number))
            ours.append(submit_and_wait(server, placement=PLACEMENT))
    over = median_ms(ours) - median_ms(bare)
    return Figure(
        what="Slurm: submit a job over HTTP until its first output line arrives",
        ours=f"{median_ms(ours):.0f} ms",
        against=f"bare sbatch {median_ms(bare):.0f} ms",
        ratio=f"+{over:.0f} ms",
        target="at most +300 ms",
        met=over <= 300,
        how=f"median of {rounds}, in turn; a real Slurm 22.05 on this machine, with local commands",
    )


def _run_bare_job(cluster: SlurmCluster, folder: Path, number: int) -> float:
    """Return how long `sbatch` takes from its start to the first line of its program."""
    output, script = folder / f"line-{number}", folder / "bare.py"
    script.write_text(SCRIPT)
    command = f"{sys.executable} {script}"
    began = time.perf_counter()
    cluster.run("sbatch", "--parsable", "-p", HIGH, "-o", str(output), "--wrap", command)
    until = began + 60
    while not output.exists() or b"first line" not in output.read_bytes():
        if time.perf_counter() > until:
            raise RuntimeError("a bare sbatch printed nothing within 60 s")
        time.sleep(0.002)
    return time.perf_counter() - began


def measure_jobs(
    cluster: SlurmCluster, folder: Path, jobs: int, cancelled: int, settle_s: float
) -> Sequence[Figure]:
    python = folder.parent / "stub-python"
    fifo = folder.parent / "started"
    python.write_text(STUB_PYTHON.format(fifo=fifo))
    python.chmod(0o755)
    with (
        serve(cluster, folder, python=str(python)) as server,
        _stub_agents(server, fifo),
        Journal(server.state / "anygpu.db") as journal,
    ):
        began = time.time()
        for number in range(jobs):
            server.call("POST", "/api/v1/training", {**JOB, "name": f"job-{number}"})
        journal.wait("TrainingStarted", jobs, ALL_TRAIN_S)
        trained = time.time()
        busy = idle_load(server, settle_s)
        ended = _cancel(cluster, cancelled)
        journal.wait("AttemptLost", cancelled, AGAIN_S)
        journal.wait("TrainingStarted", jobs + cancelled, AGAIN_S)
        lost = journal.last("AttemptLost")
        lags = [lost[name.split("-")[1]] - at for name, at in ended.items()]
        peak_mb = server.peak_mb()
    return _figures(jobs, cancelled, trained - began, lags, peak_mb, busy)


@contextlib.contextmanager
def _stub_agents(server: BenchServer, fifo: Path) -> Iterator[None]:
    command = [sys.executable, "-m", "bench.stub_jobs", str(fifo), str(server.agent_port)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()  # it is ready
        yield
    finally:
        stop_process(process, within_s=10)


def _cancel(cluster: SlurmCluster, count: int) -> dict[str, float]:
    """Kill running jobs at once, as an administrator may. Return when each ended, by the name of its attempt."""
    listed = cluster.run("squeue", "-h", "-t", "running", "-o", "%i %j").split("\n")
    chosen = [line.split() for line in listed if "anygpu-" in line][:count]
    cluster.run("scancel", *(job for job, _ in chosen))
    at = time.time()
    return {name: at for _, name in chosen}


def _figures(
    jobs: int, cancelled: int, all_train_s: float, lags: Sequence[float], peak_mb: float, busy: float
) -> list[Figure]:
    lag_ms = quantile_ms(lags, 0.99)
    what = f"Slurm, {jobs:,} jobs"
    return [
        Figure(
            what=f"{what}: from the first submission until all train",
            clients=str(jobs),
            ours=f"{all_train_s:.0f} s",
            target="",
            met=True,
            how="real Slurm jobs with stub agents; one server process",
        ),
        Figure(
            what=f"{what}, {cancelled} cancelled at once: until each loss is recorded",
            clients=str(jobs),
            ours=f"p50 {quantile_ms(lags, 0.5):.0f} ms, p99 {lag_ms:.0f} ms",
            target="p99 under 2 s",
            met=lag_ms < 2000,
            how="from the end of scancel to the committed event `AttemptLost`; the queue is read every "
            f"{POLL_S:g} s (option `poll_s`, default 5 s)",
        ),
        Figure(
            what=f"{what}: memory of the server",
            clients=str(jobs),
            ours=f"peak {peak_mb:.0f} MB",
            against=f"uses {busy:.2f} CPUs while all train",
            target="under 1 GiB",
            met=peak_mb < 1024,
            how="the largest value of the whole run",
        ),
    ]
