"""Two machines must not run workers of the same name, also if the broker could not say so when they started."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.contracts.backends.celery_workers import QUEUE, TestBroker, open_broker, open_worker, wait_until

from anygpu.backends.celery.broker import parse_broker
from anygpu.backends.celery.messages import BrokerKeys
from anygpu.backends.celery.worker.attempts import WorkerAttempts
from anygpu.backends.celery.worker.reporter import WorkerReporter

NAME = "cpu0@lab1"
ATTEMPT = ("0123456789ab", f"anygpu-{'ab' * 16}-1")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[TestBroker]:
    with open_broker(tmp_path / "broker") as made:
        yield made


class Reporter:
    """The reporter of a worker with a directory of its own, as on another machine."""

    def __init__(self, folder: Path, broker: TestBroker) -> None:
        folder.mkdir()
        self.conflicts = 0
        self.attempts = WorkerAttempts(NAME, folder / "attempts", ())
        address, keys = parse_broker(broker.url), BrokerKeys(QUEUE)
        self.reporter = WorkerReporter(
            NAME, folder, address, keys, self.attempts, [], on_conflict=self.count_conflict
        )
        self.reporter.start()
        self.machine = (folder / "machine-id").read_text()

    def count_conflict(self) -> None:
        self.conflicts += 1

    def report(self) -> None:
        """Report at once, as after a change of an attempt."""
        self.attempts.on_change(ATTEMPT)


def reporting_machine(broker: TestBroker) -> str:
    return str((broker.report(NAME) or {"machine": ""})["machine"])


def test_of_two_workers_with_one_name_the_later_one_ends(tmp_path: Path, broker: TestBroker) -> None:
    first = Reporter(tmp_path / "first", broker)
    try:
        wait_until(lambda: reporting_machine(broker) == first.machine)
        broker.forget(NAME)  # as a broker that has lost its data
        later = Reporter(tmp_path / "later", broker)
        try:
            wait_until(lambda: reporting_machine(broker) == later.machine)
            first.report()
            assert reporting_machine(broker) == first.machine
            later.report()
            wait_until(lambda: later.conflicts)
            assert f"A worker with the name {NAME} is alive on" in str(later.reporter.conflict)
        finally:
            later.reporter.close()
        assert (reporting_machine(broker), first.conflicts, later.conflicts) == (first.machine, 0, 1)
        assert (broker.report(NAME) or {})["stopped"] is False
    finally:
        first.reporter.close()


@pytest.mark.extended
def test_a_worker_that_started_without_the_broker_ends_if_its_name_is_taken(
    tmp_path: Path, broker: TestBroker
) -> None:
    state = tmp_path / "other"
    environ = {**os.environ, "ANYGPU_STATE": str(state), "CELERY_BROKER_URL": broker.url}
    with open_worker(tmp_path, broker) as worker:
        broker.stop(keep_data=False)
        other = subprocess.Popen(
            [sys.executable, "-m", "anygpu", "worker", "--cpu", "--name", worker.name],
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            own = state / "workers" / "cpu0" / "report.json"
            wait_until(lambda: own.exists() and "does not answer" in json.loads(own.read_text())["problem"])
            broker.start()
            output, _ = other.communicate(timeout=60)
        finally:
            other.kill()
        assert other.returncode == 73, output
        assert f"A worker with the name {worker.name} is alive on" in output
        assert worker.process.poll() is None
        assert (broker.report(worker.name) or {})["pid"] == worker.process.pid
