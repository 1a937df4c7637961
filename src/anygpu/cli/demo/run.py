"""Run the demo: submit a job, preempt its machine, wait until it resumes elsewhere, check the results."""

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from anygpu.cli.admin.server import browser_link
from anygpu.cli.demo.cloud import NOTICE_S, DemoCloud
from anygpu.cli.demo.report import DemoReport
from anygpu.cli.jobs.watch import Dashboard, LiveArea
from anygpu.cli.terminal import formatting, output
from anygpu.cli.terminal.chart import Curves
from anygpu.cli.terminal.progress_bar import StreamStatus
from anygpu.sdk import embedded
from anygpu.sdk.client import job_page_path
from anygpu.sdk.job import Job
from anygpu.sdk.platform import Platform
from anygpu.sdk.stream import Message

PLAIN_EVERY_S = 5.0
LINK_LIFE_S = 3600.0


class DemoRun:
    """One run of the demo in a temporary directory."""

    def __init__(self, directory: Path, epochs: int, *, quiet: bool = False) -> None:
        self._directory = directory
        self._state = directory / "state"
        self._quiet = quiet
        self.report = DemoReport(epochs=epochs)
        self._cloud: DemoCloud | None = None
        self._preempted_at: float | None = None
        self._measured_epochs: set[int] = set()
        self._exhausted: set[str] = set()  # backends without capacity

    def run(self, on_end: Callable[[DemoReport, str], None]) -> DemoReport:
        """Run the demo. `on_end` is called with the report and a link while the server still runs."""
        started = time.monotonic()
        try:
            self._print("Starting a simulated cloud on this computer.")
            self._cloud = DemoCloud(self._directory / "cloud.log")
            Path(os.environ["ANYGPU_CONFIG"]).write_text(self._cloud.settings())
            self._print("Starting a server that rents machines there.")
            server = embedded.ensure_running(self._state)
            self._print(f"Server ready at {server.url} after {time.monotonic() - started:.1f} s.")
            platform = Platform(state=self._state)
            self._train(platform)
            self.report.took_s = time.monotonic() - started
            on_end(self.report, self._link(platform))
        finally:
            self._clean_up()
        return self.report

    def _train(self, platform: Platform) -> None:
        project = self._directory / "project"
        project.mkdir()
        shutil.copy(Path(__file__).with_name("train.py"), project)
        job = platform.submit(
            script="train.py",
            args=["--epochs", str(self.report.epochs)],
            workdir=project,
            name="digits",
            outputs=["model.npz"],
            env={"OPENBLAS_NUM_THREADS": "1"},  # more threads are slower for matrices this small
            python=sys.executable,
            resources={"gpu": 1},
            checkpoint={"paths": ["model.npz"]},
            placement={"strategy": "cheapest"},
        )
        self._print(f"Submitted job {job.id} (1 GPU, cheapest offer).")
        self.report.job_id = job.id
        self._print(f"Watch it in a browser: {self._link(platform)} (works once)")
        self._watch(platform, job)
        self._collect_results(job)

    def _link(self, platform: Platform) -> str:
        return browser_link(
            platform.client.another(), job_page_path(self.report.job_id), expires_s=LINK_LIFE_S
        )

    def _watch(self, platform: Platform, job: Job) -> None:
        board = Dashboard(job.describe(), StreamStatus(), Curves(("loss", "accuracy")), height=6)
        client = platform.client.another()
        with self._drawing(board) as draw:
            for message in platform.client.another().stream(job.id):
                if message["kind"] in ("event", "end"):
                    board.job = client.job(job.id)
                board.update(message)
                draw()
                self._handle(message)

    def _handle(self, message: Message) -> None:
        if message["kind"] == "metrics":
            self._handle_points(message)
        elif message["kind"] == "event":
            self._handle_event(message["event"])

    def _handle_points(self, message: Message) -> None:
        epochs = [int(step) for name, step, _, _ in message["points"] if name == "loss"]
        self._measured_epochs.update(epochs)
        if not epochs:
            return
        if self._preempted_at is None and epochs[-1] >= self.report.epochs // 3:
            self._preempt_machine(epochs[-1])
        elif self._preempted_at is not None and message["attempt"] == 1:
            self.report.last_epoch_there = max(epochs)
        elif self._preempted_at is not None and self.report.recovery_s is None:
            self.report.recovery_s = time.monotonic() - self._preempted_at

    def _preempt_machine(self, epoch: int) -> None:
        assert self._cloud is not None
        self._cloud.preempt(self.report.places[-1].name)
        self._preempted_at = time.monotonic()
        self.report.noticed_at_epoch = self.report.last_epoch_there = epoch
        self._print_unless_live(
            f"Epoch {epoch}: the provider preempts the machine with {NOTICE_S:.0f} s notice."
        )

    def _handle_event(self, event: dict[str, Any]) -> None:
        data = event["data"]
        if event["type"] == "RecoveryStarted":
            self._handle_recovery(data)
        elif event["type"] == "AttemptLaunching":
            self.report.add_machine(data["name"], data["offer"])
        elif event["type"] == "AttemptLaunched":
            machine = self.report.places[-1]
            price = formatting.money(machine.price_microusd_per_hour)
            self._print_unless_live(f"Rented {machine.label} for {price} per hour.")
        elif event["type"] == "AttemptLost" and data["failure"]["code"] == "no_capacity":
            self._handle_no_capacity(self.report.places.pop().backend)

    def _handle_no_capacity(self, backend: str) -> None:
        if backend not in self._exhausted:  # count a backend once, though several attempts may fail on it
            self._exhausted.add(backend)
            self._print_unless_live(f"No capacity left at {backend}.")

    def _handle_recovery(self, data: dict[str, Any]) -> None:
        if data["failure"]["blame"] != "preemption":
            return
        self.report.work_lost_s = data.get("work_lost_s", 0.0)
        self.report.resumed_from_epoch = (data.get("resume") or {}).get("step")
        epoch = self.report.resumed_from_epoch
        self._print_unless_live(f"Checkpoint saved at epoch {epoch}. The job resumes on another machine.")

    def _collect_results(self, job: Job) -> None:
        ended = job.describe()
        self.report.status = ended["status"]
        self.report.failure = ended.get("failure")
        self.report.accuracy = ended["metrics"].get("accuracy")
        self.report.points_lost = self.report.epochs - len(self._measured_epochs)
        fetched = job.fetch(self._directory / "fetched")
        self.report.model_bytes = sum(path.stat().st_size for path in fetched)
        self._compare_bills(ended)

    def _compare_bills(self, ended: dict[str, Any]) -> None:
        assert self._cloud is not None
        bills = self._cloud.bills()
        self.report.ledger_microusd = ended["cost_microusd"]
        self.report.meter_microusd = sum(entry["billed_microusd"] for entry in bills)
        self.report.machines_left = sum(entry["ended_at_ms"] is None for entry in bills)

    @contextmanager
    def _drawing(self, board: Dashboard) -> Iterator[Callable[[], None]]:
        if self._quiet:
            yield lambda: None
        elif sys.stdout.isatty():
            with LiveArea() as draw:
                yield lambda: draw([*board.lines(output.terminal_width()), self._caption()])
        else:
            yield _at_most_every(
                PLAIN_EVERY_S, lambda: print(board.one_line(output.terminal_width()), flush=True)
            )
            print("\n".join(board.lines(min(output.terminal_width(), 100), colour=False)), flush=True)

    def _caption(self) -> str:
        if self._preempted_at is None:
            return "Soon the provider will preempt the machine."
        if self.report.recovery_s is None:
            return f"The machine was preempted at epoch {self.report.noticed_at_epoch}; waiting for the next one …"
        return f"Resumed from epoch {self.report.resumed_from_epoch} on {self.report.places[-1].label}."

    def _print(self, text: str) -> None:
        if not self._quiet:
            print(text, flush=True)

    def _print_unless_live(self, text: str) -> None:
        """Print a line unless standard output is a terminal, where the live view shows the same text."""
        if not sys.stdout.isatty():
            self._print(text)

    def _clean_up(self) -> None:
        if self.report.job_id and not self.report.status and embedded.find_running(self._state) is not None:
            job = Platform(state=self._state).job(self.report.job_id)
            job.cancel()
            for _ in job.monitor():
                pass
        embedded.stop(self._state)
        if self._cloud is not None:
            self._cloud.stop()


def _at_most_every(seconds: float, act: Callable[[], None]) -> Callable[[], None]:
    acted_at = float("-inf")

    def maybe() -> None:
        nonlocal acted_at
        if time.monotonic() - acted_at >= seconds:
            acted_at = time.monotonic()
            act()

    return maybe
