"""Start, stop and list the workers that run in the background on this machine.

Each worker has a directory below `<state>/workers`: its lock, process id, log, last report and attempts.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from anygpu.agent.attempt_dir import process_identity
from anygpu.agent.host.requests import kill_and_block
from anygpu.agent.host.slots import try_lock
from anygpu.backends.celery.broker import BrokerAddress
from anygpu.backends.celery.messages import WorkerReport
from anygpu.backends.celery.worker.attempts import WorkerAttempts
from anygpu.errors import AnygpuError, Conflict
from anygpu.files import write_atomic

CONFIG_FILE, PROCESS_FILE, LOG_FILE = "workers.json", "process.json", "worker.log"
LOCK_FILE, REPORT_FILE = "worker.lock", "report.json"
START_TIMEOUT_S = 30.0
AGENT_STOP_S = 60.0  # an agent that saves a checkpoint has this long
POLL_S = 0.05
LOG_LINES = 15
# Keep the Popen objects: Python warns when the object of a running process is deleted.
_CHILDREN: list[object] = []


class WorkerFailed(AnygpuError):
    """A worker on this machine did not start or stop. Read its log."""

    code = "worker_failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPlan:
    """How the background workers of this machine are started. Stored, so that `scale` can start more."""

    broker: BrokerAddress
    queue: str
    host: str
    drain_s: float | None = None
    cpu: bool = False  # workers without a GPU


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStatus:
    """A background worker of this machine: its process, and what it reported last."""

    name: str
    directory: Path
    pid: int | None  # None: it does not run
    broker: str
    queue: str
    problem: str
    report: WorkerReport | None

    @property
    def is_running(self) -> bool:
        return self.pid is not None

    @property
    def is_busy(self) -> bool:
        return self.report is not None and bool(self.report.attempts)


class BackgroundWorkers:
    """The background workers of this machine, found by their directories."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def save_plan(self, plan: WorkerPlan) -> None:
        """Store how workers are started. The file has the broker's password, so only its owner can read it."""
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomic(self._directory / CONFIG_FILE, json.dumps(asdict(plan)).encode())

    def load_plan(self) -> WorkerPlan | None:
        try:
            stored = json.loads((self._directory / CONFIG_FILE).read_text())
            return WorkerPlan(**{**stored, "broker": BrokerAddress(**stored["broker"])})
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def statuses(self) -> list[WorkerStatus]:
        """Return the workers that have been started here, sorted by name, also those that have ended."""
        if not self._directory.is_dir():
            return []
        found = [each for each in self._directory.iterdir() if (each / PROCESS_FILE).exists()]
        return [_read_status(each) for each in sorted(found, key=lambda each: _natural_key(each.name))]

    def running(self) -> list[WorkerStatus]:
        return [status for status in self.statuses() if status.is_running]

    def is_in_use(self, slot: str) -> bool:
        """Return whether a worker runs in the directory of this slot, in the background or not."""
        return _is_locked(self._directory / slot)

    def start(self, plan: WorkerPlan, slot: str, gpu: str) -> WorkerStatus:
        """Start a worker in the background, and wait until it has reported.

        `slot` is its name without the host, such as `gpu0`; `gpu` is the UUID of its GPU, or empty.
        """
        directory = self._directory / slot
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        (directory / REPORT_FILE).unlink(missing_ok=True)
        child = _spawn(directory, plan, slot, gpu)
        process = {
            **process_identity(child.pid),
            "name": f"{slot}@{plan.host}",
            "broker": plan.broker.display,
            "queue": plan.queue,
        }
        write_atomic(directory / PROCESS_FILE, json.dumps(process).encode())
        _wait_started(directory, child)
        return _read_status(directory)

    def stop(self, workers: Sequence[WorkerStatus], *, now: bool = False) -> None:
        """Ask workers to stop, without waiting: they accept no new attempts, and end after the current one.

        With `now`, the agents save a checkpoint and stop, and their jobs continue on another worker.
        """
        for worker in workers:
            if worker.pid is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(worker.pid, signal.SIGTERM)
        if now:
            for worker in workers:
                _attempts(worker).stop_agents()

    def wait_stopped(self, workers: Sequence[WorkerStatus], *, now: bool = False) -> None:
        """Wait until the workers have ended. With `now`, agents that do not stop are killed after a minute."""
        deadline = time.monotonic() + AGENT_STOP_S if now else float("inf")
        while any(_is_locked(worker.directory) for worker in workers):
            if time.monotonic() > deadline:
                for worker in workers:
                    _kill_agents(worker)
                deadline = float("inf")
            time.sleep(POLL_S)
        for worker in workers:
            (worker.directory / PROCESS_FILE).unlink(missing_ok=True)


def drain_words(drain_s: float | None) -> list[str]:
    """Return the words of `anygpu worker` for the drain time. Long times must not become `1.2096e+06s`."""
    if drain_s is None:
        return []
    return ["--drain", f"{drain_s:f}s" if drain_s else "0s"]


def _spawn(directory: Path, plan: WorkerPlan, slot: str, gpu: str) -> "subprocess.Popen[bytes]":
    if _is_locked(directory):
        raise Conflict(
            f"The worker {slot} already runs on this machine.",
            hint=f"If `anygpu workers status` does not list it, it runs in another terminal or service ({directory}).",
        )
    command = [
        sys.executable,
        "-m",
        "anygpu",
        "worker",
        "--name",
        f"{slot}@{plan.host}",
        "--queue",
        plan.queue,
    ]
    command += ["--gpu", gpu] if gpu else ["--cpu"]
    command += drain_words(plan.drain_s)
    command += ["--ca-file", plan.broker.ca_file] if plan.broker.ca_file else []
    command += ["--directory", str(directory)]
    log = os.open(directory / LOG_FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(log, "ab") as output:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            # Not as an argument, which every user of the machine could read.
            env={**os.environ, "CELERY_BROKER_URL": plan.broker.url},
            start_new_session=True,
        )
    _CHILDREN.append(child)
    return child


def _wait_started(directory: Path, child: "subprocess.Popen[bytes]") -> None:
    end = time.monotonic() + START_TIMEOUT_S
    while not (directory / REPORT_FILE).exists():
        if child.poll() is not None:
            (directory / PROCESS_FILE).unlink(missing_ok=True)
            raise WorkerFailed(
                f"The worker could not start; it exited with code {child.returncode}. The end of its log:\n"
                f"{_log_tail(directory / LOG_FILE)}"
            )
        if time.monotonic() > end:
            raise WorkerFailed(
                f"The worker is not ready after {START_TIMEOUT_S:.0f} s. The end of its log:\n"
                f"{_log_tail(directory / LOG_FILE)}"
            )
        time.sleep(POLL_S)


def _read_status(directory: Path) -> WorkerStatus:
    process = _read_json(directory / PROCESS_FILE)
    content = _read_json(directory / REPORT_FILE)
    try:
        report = WorkerReport.model_validate(content.get("report"))
    except ValueError:
        report = None
    running = _is_locked(directory)
    problem = str(content.get("problem") or "") if running else "it does not run; see its log"
    pid = report.pid if report is not None else process.get("pid")
    return WorkerStatus(
        name=str(process.get("name") or directory.name),
        directory=directory,
        pid=pid if running and isinstance(pid, int) else None,
        broker=str(process.get("broker") or ""),
        queue=str(process.get("queue") or ""),
        problem=problem,
        report=report,
    )


def _is_locked(directory: Path) -> bool:
    """Return whether the worker of this directory runs: it holds a lock while it does."""
    path = directory / LOCK_FILE
    if not path.exists():
        return False
    fd = try_lock(str(path))
    if fd is not None:
        os.close(fd)
    return fd is None


def _attempts(worker: WorkerStatus) -> WorkerAttempts:
    return WorkerAttempts(worker.name, worker.directory / "attempts", ())


def _kill_agents(worker: WorkerStatus) -> None:
    attempts = _attempts(worker)
    for each in attempts.listed():
        kill_and_block(str(worker.directory / "attempts" / each.owner / each.name))


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _log_tail(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return "\n".join([*lines[-LOG_LINES:], f"(full log: {log})"])


def _natural_key(name: str) -> tuple[str, int]:
    letters = name.rstrip("0123456789")
    return letters, int(name[len(letters) :] or 0)
