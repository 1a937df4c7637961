"""The demo itself: submit, watch, kill, watch it come back, fetch."""

import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from anygpu.cli import table
from anygpu.cli.bar import Pulse
from anygpu.cli.curves import Curves
from anygpu.cli.dashboard import Dashboard
from anygpu.cli.demo.report import Report
from anygpu.cli.watch import live
from anygpu.sdk import embedded
from anygpu.sdk.job import Job
from anygpu.sdk.platform import Platform
from anygpu.sdk.stream import Message

TRAINER = re.compile(rb"process (\d+)")
PLAIN_EVERY_S = 1.0
SAVE_EVERY = 10  # as train.py does


class Tour:
    """One demo in one directory, which is removed afterwards."""

    def __init__(self, directory: Path, epochs: int, *, quiet: bool = False) -> None:
        self._directory = directory
        self._state = directory / "state"
        self._quiet = quiet
        self.report = Report(epochs=epochs)
        self._trainer: int | None = None
        self._killed_at: float | None = None
        self._measured: set[int] = set()

    def run(self) -> Report:
        began = time.monotonic()
        try:
            self._say("starting a server (in a directory of its own, gone afterwards)")
            found = embedded.ensure(self._state)
            self._say(f"server ready at {found.url} after {time.monotonic() - began:.1f} s")
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
        )
        self._say(f"training a network on handwritten digits as job {job.id}")
        self.report.job_id = job.id
        self._watch(platform, job)
        self._conclude(job)

    def _watch(self, platform: Platform, job: Job) -> None:
        board = Dashboard(job.describe(), Pulse(), Curves(("loss", "accuracy")), height=6)
        asking = platform.client.another()
        with self._drawing(board) as draw:
            for message in platform.client.another().stream(job.id):
                if message["kind"] in ("event", "end"):
                    board.job = asking.job(job.id)
                board.take(message)
                draw()
                self._take(message)

    def _take(self, message: Message) -> None:
        if message["kind"] == "log" and (found := TRAINER.search(message["data"])):
            self._trainer = int(found[1])
        elif message["kind"] == "metrics":
            self._saw_points(message)
        elif message["kind"] == "event":
            self._saw_event(message["event"])

    def _saw_points(self, message: Message) -> None:
        epochs = [int(step) for name, step, _, _ in message["points"] if name == "loss"]
        self._measured.update(epochs)
        if not epochs:
            return
        if self._killed_at is not None and message["attempt"] == 1:
            self.report.killed_at_epoch = max(epochs)
        if self._killed_at is not None and self.report.recovery_s is None and message["attempt"] > 1:
            self.report.recovery_s = time.monotonic() - self._killed_at
        if message["attempt"] == 1 and self._killed_at is None and self._is_time_to_kill(epochs[-1]):
            self._kill(epochs[-1])

    def _is_time_to_kill(self, epoch: int) -> bool:
        """In the second half and between two checkpoints, so that there is something to lose."""
        return epoch >= self.report.epochs // 2 and 2 <= epoch % SAVE_EVERY <= 6

    def _kill(self, epoch: int) -> None:
        if self._trainer is None:
            return
        os.kill(self._trainer, signal.SIGKILL)
        self._killed_at = time.monotonic()
        self.report.killed_at_epoch = epoch
        self._remark(f"killed the trainer (process {self._trainer}, SIGKILL) at epoch {epoch}")

    def _saw_event(self, event: dict[str, Any]) -> None:
        data = event["data"]
        if event["type"] == "RecoveryStarted":
            self.report.work_lost_s = data.get("work_lost_s", 0.0)
            self.report.resumed_from_epoch = (data.get("resume") or {}).get("step")
            self._remark(f"resuming by itself from the checkpoint of epoch {self.report.resumed_from_epoch}")
        elif event["type"] == "AttemptLaunching":
            self.report.attempts = data["attempt"]

    def _conclude(self, job: Job) -> None:
        ended = job.describe()
        self.report.status = ended["status"]
        self.report.failure = ended.get("failure")
        self.report.accuracy = ended["metrics"].get("accuracy")
        self.report.points_lost = self.report.epochs - len(self._measured)
        fetched = job.fetch(self._directory / "fetched")
        self.report.model_bytes = sum(path.stat().st_size for path in fetched)

    @contextmanager
    def _drawing(self, board: Dashboard) -> Iterator[Callable[[], None]]:
        if self._quiet:
            yield lambda: None
        elif sys.stdout.isatty():
            with live() as draw:
                yield lambda: draw([*board.lines(table.width()), self._caption()])
        else:
            yield _every(PLAIN_EVERY_S, lambda: print(board.one_line(table.width()), flush=True))
            print("\n".join(board.lines(min(table.width(), 100), colour=False)), flush=True)

    def _caption(self) -> str:
        if self._killed_at is None:
            return "halfway, the trainer will be killed (SIGKILL)"
        if self.report.recovery_s is None:
            return f"killed process {self._trainer} at epoch {self.report.killed_at_epoch}; recovering …"
        return f"resumed from the checkpoint of epoch {self.report.resumed_from_epoch}"

    def _say(self, text: str) -> None:
        if not self._quiet:
            print(text, flush=True)

    def _remark(self, text: str) -> None:
        """Where the live picture has its caption, plain lines have this."""
        if not sys.stdout.isatty():
            self._say(text)

    def _clean_up(self) -> None:
        if self.report.job_id and not self.report.status and embedded.running(self._state) is not None:
            job = Platform(state=self._state).job(self.report.job_id)
            job.cancel()
            for _ in job.monitor():
                pass
        embedded.stop(self._state)


def _every(seconds: float, act: Callable[[], None]) -> Callable[[], None]:
    acted_at = float("-inf")

    def maybe() -> None:
        nonlocal acted_at
        if time.monotonic() - acted_at >= seconds:
            acted_at = time.monotonic()
            act()

    return maybe
