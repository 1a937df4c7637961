"""Run the demo: submit a job, preempt its machine, wait until it resumes elsewhere, check the results."""

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from anygpu.cli.demo.cloud import NOTICE_S, DemoCloud
from anygpu.cli.demo.report import DemoReport
from anygpu.cli.jobs.watch import Dashboard, LiveArea
from anygpu.cli.terminal import formatting, output
from anygpu.cli.terminal.chart import Curves
from anygpu.cli.terminal.progress_bar import StreamStatus
from anygpu.sdk import embedded
from anygpu.sdk.job import Job
from anygpu.sdk.platform import Platform
from anygpu.sdk.stream import Message

PLAIN_EVERY_S = 1.0


class DemoRun:
    """One demo in one directory, which is removed afterwards."""

    def __init__(self, directory: Path, epochs: int, *, quiet: bool = False) -> None:
        self._directory = directory
        self._state = directory / "state"
        self._quiet = quiet
        self.report = DemoReport(epochs=epochs)
        self._cloud: DemoCloud | None = None
        self._preempted_at: float | None = None
        self._measured_epochs: set[int] = set()

    def run(self) -> DemoReport:
        began = time.monotonic()
        try:
            self._print(
                "starting a simulated cloud: its machines really run, here, and are billed by its meter"
            )
            self._cloud = DemoCloud(self._directory / "cloud.log")
            Path(os.environ["ANYGPU_CONFIG"]).write_text(self._cloud.settings())
            self._print("starting a server that rents there (in a directory of its own, gone afterwards)")
            found = embedded.ensure_running(self._state)
            self._print(f"server ready at {found.url} after {time.monotonic() - began:.1f} s")
            self._train(Platform(state=self._state))
        finally:
            self._clean_up()
        self.report.took_s = time.monotonic() - began
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
            env={"OPENBLAS_NUM_THREADS": "1"},  # two threads fight over matrices this small
            python=sys.executable,
            resources={"gpu": 1},
            checkpoint={"paths": ["model.npz"]},
            placement={"strategy": "cheapest"},
        )
        self._print(f"asked for one GPU, the cheapest there is, as job {job.id}")
        self.report.job_id = job.id
        self._watch(platform, job)
        self._collect_results(job)

    def _watch(self, platform: Platform, job: Job) -> None:
        board = Dashboard(job.describe(), StreamStatus(), Curves(("loss", "accuracy")), height=6)
        asking = platform.client.another()
        with self._drawing(board) as draw:
            for message in platform.client.another().stream(job.id):
                if message["kind"] in ("event", "end"):
                    board.job = asking.job(job.id)
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
            f"the provider takes the machine back, with {NOTICE_S:.0f} s notice, at epoch {epoch}"
        )

    def _handle_event(self, event: dict[str, Any]) -> None:
        data = event["data"]
        if event["type"] == "RecoveryStarted":
            self._handle_recovery(data)
        elif event["type"] == "AttemptLaunching":
            self.report.add_machine(data["name"], data["offer"])
        elif event["type"] == "AttemptLaunched":
            place = self.report.places[-1]
            self._print_unless_live(
                f"rented {place.label} at {formatting.money(place.price_microusd_per_hour)} an hour"
            )
        elif event["type"] == "AttemptLost" and data["failure"]["code"] == "no_capacity":
            self._print_unless_live(f"{self.report.places.pop().backend} has none left")

    def _handle_recovery(self, data: dict[str, Any]) -> None:
        if data["failure"]["blame"] != "preemption":
            return
        self.report.work_lost_s = data.get("work_lost_s", 0.0)
        self.report.resumed_from_epoch = (data.get("resume") or {}).get("step")
        self._print_unless_live(
            f"saved at epoch {self.report.resumed_from_epoch}, and left; it goes on elsewhere"
        )

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
        books = self._cloud.bills()
        self.report.ledger_microusd = ended["cost_microusd"]
        self.report.meter_microusd = sum(entry["billed_microusd"] for entry in books)
        self.report.machines_left = sum(entry["ended_at_ms"] is None for entry in books)

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
            return "in a moment, the provider will take the machine back"
        if self.report.recovery_s is None:
            return f"the machine is being taken back since epoch {self.report.noticed_at_epoch} …"
        return f"goes on from epoch {self.report.resumed_from_epoch} on {self.report.places[-1].label}"

    def _print(self, text: str) -> None:
        if not self._quiet:
            print(text, flush=True)

    def _print_unless_live(self, text: str) -> None:
        """Where the live picture has its caption, plain lines have this."""
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
