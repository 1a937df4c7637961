"""A server with a Celery backend, its broker and workers on one or two machines, and the job that is interrupted."""

import contextlib
import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.acceptance.machines.cloud import Server
from tests.contracts.backends.celery_workers import (
    QUEUE,
    TestBroker,
    TestWorker,
    open_broker,
    open_worker,
    wait_until,
)
from tests.walk import paths_below

from anygpu.agent.host import processes

# Learns a line by gradient descent with noise from its own generator, and saves every ten steps.
TRAINING = """
import json, random, time
from pathlib import Path
import anygpu

STEPS, STEP_S = {steps}, {step_s}
state = {{"step": 0, "slope": 0.0, "random": None}}
chance = random.Random(7)
resume = anygpu.resume_path()
if resume:
    state = json.loads(Path(resume).read_text())
    kind, numbers, gauss = state["random"]
    chance.setstate((kind, tuple(numbers), gauss))
while state["step"] < STEPS:
    time.sleep(STEP_S)
    x = chance.uniform(-1, 1)
    state["slope"] += 0.1 * x * (3 * x + chance.gauss(0, 0.1) - state["slope"] * x)
    state["step"] += 1
    state["random"] = chance.getstate()
    anygpu.log({{"slope": state["slope"]}}, step=state["step"])
    stopping = anygpu.should_stop()
    if state["step"] % 10 == 0 or stopping:
        Path("state.json").write_text(json.dumps(state))
        anygpu.checkpoint("state.json", step=state["step"])
    if stopping:
        raise SystemExit(0)
Path("model.json").write_text(json.dumps(state))
"""
STEPS = 60
SETTINGS = {
    "ANYGPU_CONTROL__SAFETY_NET_S": "0.5",
    "ANYGPU_AGENT__LEASE_S": "20",
    "ANYGPU_AGENT__CANCEL_GRACE_S": "2",
}


class Lab:
    """A server, a broker, and the workers that a test starts."""

    def __init__(
        self, folder: Path, broker: TestBroker, stack: contextlib.ExitStack, settings: str = ""
    ) -> None:
        self.folder, self.broker, self._stack = folder, broker, stack
        settings = f'[backends.lab]\nkind = "celery"\nbroker = "{broker.url}"\n{settings}'
        self.server = Server(folder, settings, **SETTINGS)
        stack.callback(self.server.stop)

    def worker(self, host: str = "lab1", *options: str) -> TestWorker:
        return self._stack.enter_context(open_worker(self.folder, self.broker, host, *options))

    def submit(self, steps: int = STEPS, step_s: float = 0.05) -> str:
        return self.server.submit(
            code=TRAINING.format(steps=steps, step_s=step_s),
            python=sys.executable,
            outputs=["model.json"],
            checkpoint={"paths": ["state.json"]},
        )

    def wait_saved(self, job: str) -> dict[str, Any]:
        return self.server.until(job, lambda each: bool(each["checkpoint"]))

    def model(self, job: str) -> str:
        """Return the hash of the model that the job has produced."""
        place = self.folder / f"fetched-{job}"
        place.mkdir()
        self.server.anygpu("fetch", job, "--all", "--to", str(place))
        (found,) = place.rglob("model.json")
        return hashlib.sha256(found.read_bytes()).hexdigest()

    def wait_completed(self, job: str, within_s: float = 120) -> dict[str, Any]:
        ended = self.server.wait(job, "completed", "failed", "cancelled", within_s=within_s)
        assert ended["status"] == "completed", f"{ended['failure']}\n{self.server.log()}"
        return ended


@contextlib.contextmanager
def open_lab(folder: Path, settings: str = "") -> Iterator[Lab]:
    with contextlib.ExitStack() as stack:
        broker = stack.enter_context(open_broker(folder / "broker"))
        yield Lab(folder, broker, stack, settings)


def attempt_name(job: str, number: int = 1) -> str:
    return f"anygpu-{job.replace('-', '')}-{number}"


def evidence(lab: Lab, job: str) -> str:
    """Return why the server has declared an attempt lost."""
    (lost,) = [each for each in lab.server.events(job) if each["type"] == "AttemptLost"]
    return str(lost["data"]["evidence"])


def agent_pid(name: str) -> int:
    return min(processes.processes_by_attempt()[name])


def assert_books_are_empty(lab: Lab, *alive: TestWorker) -> None:
    """Only reports of workers, which expire, are left: no message, no order, nothing unacknowledged."""
    reports = f"anygpu:{QUEUE}:worker"
    wait_until(lambda: all(key.startswith(reports) for key in lab.broker.contents()), what="empty books")
    for worker in alive:
        assert worker.attempts() == {}
    names = {path.name for path in paths_below(lab.folder)}
    left = [name for name in processes.processes_by_attempt() if name in names]
    assert left == []
