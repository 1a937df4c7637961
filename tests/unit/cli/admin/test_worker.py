"""Which background workers `anygpu workers start` and `anygpu workers scale` start. No process is started here."""

import os
import signal
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from anygpu.agent.host.slots import try_lock
from anygpu.backends.celery.broker import parse_broker
from anygpu.backends.celery.worker.background import LOCK_FILE, BackgroundWorkers, WorkerPlan, drain_words
from anygpu.backends.celery.worker.machine import WorkerGpu
from anygpu.cli.admin import worker
from anygpu.cli.admin.worker import _parse_drain, _start_missing, start_workers, worker_command

PLAN = WorkerPlan(broker=parse_broker("redis://127.0.0.1:6379/0"), queue="q", host="lab1")


class RecordedWorkers(BackgroundWorkers):
    """Records which workers would be started."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.started: list[str] = []

    def start(self, plan: WorkerPlan, slot: str, gpu: str) -> Any:
        self.started.append(slot)


@pytest.fixture(autouse=True)
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "_slots", lambda plan: {"gpu0": "GPU-a", "gpu1": "GPU-b"})


@pytest.mark.parametrize(("wanted", "started"), [(1, []), (2, ["gpu1"])])
def test_a_gpu_whose_worker_runs_in_the_foreground_gets_no_second_worker(
    tmp_path: Path, wanted: int, started: list[str]
) -> None:
    workers = RecordedWorkers(tmp_path)
    (tmp_path / "gpu0").mkdir()
    held = try_lock(str(tmp_path / "gpu0" / LOCK_FILE))
    assert held is not None
    try:
        _start_missing(workers, PLAN, wanted)
    finally:
        os.close(held)
    assert workers.started == started


def test_a_refused_start_does_not_change_how_scale_starts_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers = RecordedWorkers(tmp_path)
    workers.save_plan(PLAN)
    monkeypatch.setattr(worker, "_background", lambda: workers)
    words = ["--broker", "redis://other:6379/0", "--count", "3"]
    refused = CliRunner().invoke(start_workers, words)
    assert (refused.exit_code, workers.started) == (2, [])
    assert "at most 2 workers, not 3" in refused.output
    assert workers.load_plan() == PLAN


@pytest.mark.parametrize("drain_s", [0.0, 0.5, 90.0, 14 * 86_400.0, 86_400.25, 1_209_601.0])
def test_a_drain_time_is_passed_on_exactly(drain_s: float) -> None:
    option, text = drain_words(drain_s)
    parameter = next(each for each in worker_command.params if option in each.opts)
    assert _parse_drain(click.Context(worker_command), parameter, text) == drain_s


def test_without_a_drain_time_no_option_is_passed_on() -> None:
    assert drain_words(None) == []


class StubChild:
    """A worker process that ends at the signal `ends_at`. Whoever looks at it presses Ctrl-C while it runs."""

    def __init__(self, ends_at: signal.Signals) -> None:
        self.received: list[signal.Signals] = []
        self._ends_at = ends_at

    def poll(self) -> int | None:
        if self._ends_at in self.received:
            return 0
        os.kill(os.getpid(), signal.SIGINT)
        return None

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def send_signal(self, number: signal.Signals) -> None:
        self.received.append(number)

    def wait(self) -> int:
        assert self._ends_at in self.received, "it would wait for the running job"
        return 0


def run_all(
    children: list[StubChild], monkeypatch: pytest.MonkeyPatch, *words: str
) -> tuple[Result, list[list[str]]]:
    """Run `anygpu worker --all-gpus` with these processes. Return its result and their commands."""
    gpus = [WorkerGpu(number, f"GPU-{number}", "T4", 15, "550") for number in range(len(children))]
    commands: list[list[str]] = []

    def start(command: list[str], gpu: WorkerGpu, environment: dict[str, str]) -> StubChild:
        commands.append(command)
        return children[gpu.number]

    monkeypatch.setattr(worker, "_choose_gpus", lambda *args, **options: gpus)
    monkeypatch.setattr(worker, "_start_child", start)
    monkeypatch.setattr(worker, "POLL_S", 0.001)
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        options = ["--all-gpus", "--broker", "redis://127.0.0.1:6379/0", *words]
        return CliRunner().invoke(worker_command, options), commands
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_one_worker_for_each_gpu_gets_the_output_format(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [*words, "--directory", str(tmp_path)]
    done, commands = run_all([StubChild(signal.SIGTERM)], monkeypatch, *words)
    assert done.exit_code == 0
    assert ("--json" in commands[0]) == ("--json" in words)
    assert "Waiting for the workers" in done.stderr


def test_a_second_interrupt_stops_the_jobs_of_all_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy, idle = StubChild(signal.SIGQUIT), StubChild(signal.SIGTERM)
    done, _ = run_all([idle, busy], monkeypatch, "--directory", str(tmp_path))
    assert (done.exit_code, busy.received) == (0, [signal.SIGTERM, signal.SIGQUIT])
    assert "After another Ctrl-C" in done.stderr
    assert "Stopping the jobs" in done.stderr
