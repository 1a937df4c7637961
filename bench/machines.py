"""Measure one server with a thousand machines, each with an SSH server and an agent; 300 are preempted at once."""

import sqlite3
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.cloud import STUBS, Cloud, rented
from bench.server import BenchServer, Figure, quantile_ms

MACHINES, TAKEN = 1000, 300
ALL_TRAIN_S, AGAIN_S, SETTLE_S = 120.0, 60.0, 12.0
REGIONS = ["us-east-1", "us-west-2"]
# A way to resume: spot is for such jobs.
JOB = {
    "command": "train",
    "checkpoint": {"paths": ["state.pt"]},
    "placement": {"paid": True, "interruptible": "yes"},
}


@dataclass(frozen=True, kw_only=True)
class MachineResults:
    """Results of one run."""

    all_train_s: float
    lags_s: list[float]
    again_s: list[float]
    peak_mb: float
    busy: float  # processors the server used while everything trained and nothing happened


def measure(_: BenchServer, *, quick: bool = False) -> list[Figure]:
    machines, preempted = (10, 3) if quick else (MACHINES, TAKEN)
    with tempfile.TemporaryDirectory() as directory:
        options = {"max_machines": 2 * machines, "regions": REGIONS}
        with rented(Path(directory), STUBS, paid_attempts=2 * machines, **options) as (cloud, server):
            results = run(cloud, server, machines, preempted, settle_s=0.5 if quick else SETTLE_S)
            return figures(results, machines, preempted)


def run(cloud: Cloud, server: BenchServer, machines: int, preempted: int, settle_s: float) -> MachineResults:
    with Journal(server.state / "anygpu.db") as journal:
        began = time.time()
        submit(server, machines)
        journal.wait("TrainingStarted", machines, ALL_TRAIN_S)
        trained = time.time()
        busy = idle_load(server, settle_s)
        cloud.tell(f"preempt {preempted}")
        journal.wait("AttemptLost", preempted, AGAIN_S)
        journal.wait("TrainingStarted", machines + preempted, AGAIN_S)
        taken = taken_at(cloud)
        return MachineResults(
            all_train_s=trained - began,
            lags_s=[lost - taken[job] for job, lost in journal.last("AttemptLost").items()],
            again_s=[at - taken[job] for job, at in journal.last("TrainingStarted").items() if job in taken],
            peak_mb=server.peak_mb(),
            busy=busy,
        )


def submit(server: BenchServer, machines: int) -> None:
    with ThreadPoolExecutor(4) as clients:
        names = [{**JOB, "name": f"machine-{n}"} for n in range(machines)]
        list(clients.map(lambda spec: server.call("POST", "/api/v1/training", spec), names))


def idle_load(server: BenchServer, seconds: float) -> float:
    before = server.cpu_s()
    time.sleep(seconds)
    return (server.cpu_s() - before) / seconds


def taken_at(cloud: Cloud) -> dict[str, float]:
    """By job: when its machine was taken, by the simulator."""
    instances = [each for each in cloud.ask("instances") if each["taken_at_ms"] is not None]
    return {job_of(each["name"]): each["taken_at_ms"] / 1000 for each in instances}


def job_of(machine: str) -> str:
    """`anygpu-<job>-<attempt>-<owner>`, the job's id without dashes."""
    return machine.split("-")[1]


class Journal:
    """Watches the journal from beside the server: an event counts from when it can be read by others."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: dict[str, list[tuple[str, float]]] = {}
        self._changed = threading.Condition()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "Journal":
        self._thread.start()
        return self

    def __exit__(self, *reason: object) -> None:
        self._stop.set()
        self._thread.join()

    def wait(self, kind: str, count: int, within_s: float) -> None:
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._seen.get(kind, ())) >= count, within_s):
                found = {name: len(seen) for name, seen in self._seen.items()}
                raise RuntimeError(f"{count} {kind} were expected within {within_s:g} s; there are {found}")

    def last(self, kind: str) -> dict[str, float]:
        """By job: when its newest event of this kind was first seen."""
        with self._changed:
            return dict(self._seen[kind])

    def _watch(self) -> None:
        database = sqlite3.connect(f"file:{self._path}?mode=ro", uri=True)
        position = 0
        while not self._stop.wait(0.01):
            rows = database.execute(
                "SELECT position, kind, job_id FROM events WHERE position > ? ORDER BY position", (position,)
            ).fetchall()
            position = rows[-1][0] if rows else position
            self._note(rows)
        database.close()

    def _note(self, rows: list[Any]) -> None:
        now = time.time()
        with self._changed:
            for _, kind, job in rows:
                self._seen.setdefault(kind, []).append((job.replace("-", ""), now))
            self._changed.notify_all()


def figures(results: MachineResults, machines: int, preempted: int) -> list[Figure]:
    lag_ms, again_ms = quantile_ms(results.lags_s, 0.99), quantile_ms(results.again_s, 0.5)
    what = f"{machines:,} machines"
    return [
        Figure(
            what=f"{what}: from the first submission until all train",
            clients=str(machines),
            ours=f"{results.all_train_s:.0f} s",
            target="",
            met=True,
            how="simulated machines that boot in 2 s, with real SSH and HTTP; one server process",
        ),
        Figure(
            what=f"{what}, {preempted} lost at once: until each loss is recorded",
            clients=str(machines),
            ours=f"p50 {quantile_ms(results.lags_s, 0.5):.0f} ms, p99 {lag_ms:.0f} ms",
            against=f"all train again: median {again_ms / 1000:.1f} s, last {max(results.again_s):.1f} s",
            target="p99 under 1 s",
            met=lag_ms < 1000,
            how="from the end of the machine to the committed event `AttemptLost`",
        ),
        Figure(
            what=f"{what}: memory of the server",
            clients=str(machines),
            ours=f"peak {results.peak_mb:.0f} MB",
            against=f"uses {results.busy:.2f} CPUs while all train",
            target="under 1 GiB",
            met=results.peak_mb < 1024,
            how="the largest value of the whole run",
        ),
    ]
