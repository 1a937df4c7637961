"""The demo itself: submit, watch, lose the machine, watch the job go on elsewhere, fetch, compare the bills."""

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from anygpu.cli import table, words
from anygpu.cli.bar import Pulse
from anygpu.cli.curves import Curves
from anygpu.cli.dashboard import Dashboard
from anygpu.cli.demo.rehearsal import NOTICE_S, Rehearsal
from anygpu.cli.demo.report import Report
from anygpu.cli.watch import live
from anygpu.sdk import embedded
from anygpu.sdk.job import Job
from anygpu.sdk.platform import Platform
from anygpu.sdk.stream import Message

PLAIN_EVERY_S = 1.0


class Tour:
    """One demo in one directory, which is removed afterwards."""

    def __init__(self, directory: Path, epochs: int, *, quiet: bool = False) -> None:
        self._directory = directory
        self._state = directory / "state"
        self._quiet = quiet
        self.report = Report(epochs=epochs)
        self._cloud: Rehearsal | None = None
        self._noticed_at: float | None = None
        self._measured: set[int] = set()

    def run(self) -> Report:
        began = time.monotonic()
        try:
            self._say(
                "starting a simulated cloud: its machines really run, here, and are billed by its meter"
            )
            self._cloud = Rehearsal(self._directory / "cloud.log")
            Path(os.environ["ANYGPU_CONFIG"]).write_text(self._cloud.settings())
            self._say("starting a server that rents there (in a directory of its own, gone afterwards)")
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
            python=sys.executable,
            resources={"gpu": 1},
            checkpoint={"paths": ["model.npz"]},
            placement={"strategy": "cheapest"},
        )
        self._say(f"asked for one GPU, the cheapest there is, as job {job.id}")
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
        if message["kind"] == "metrics":
            self._saw_points(message)
        elif message["kind"] == "event":
            self._saw_event(message["event"])

    def _saw_points(self, message: Message) -> None:
        epochs = [int(step) for name, step, _, _ in message["points"] if name == "loss"]
        self._measured.update(epochs)
        if not epochs:
            return
        if self._noticed_at is None and epochs[-1] >= self.report.epochs // 3:
            self._take_machine_back(epochs[-1])
        elif self._noticed_at is not None and message["attempt"] == 1:
            self.report.last_epoch_there = max(epochs)
        elif self._noticed_at is not None and self.report.recovery_s is None:
            self.report.recovery_s = time.monotonic() - self._noticed_at

    def _take_machine_back(self, epoch: int) -> None:
        assert self._cloud is not None
        self._cloud.take_back(self.report.places[-1].name)
        self._noticed_at = time.monotonic()
        self.report.noticed_at_epoch = self.report.last_epoch_there = epoch
        self._remark(f"the provider takes the machine back, with {NOTICE_S:.0f} s notice, at epoch {epoch}")

    def _saw_event(self, event: dict[str, Any]) -> None:
        data = event["data"]
        if event["type"] == "RecoveryStarted":
            self._saw_recovery(data)
        elif event["type"] == "AttemptLaunching":
            self.report.took_place(data["name"], data["offer"])
        elif event["type"] == "AttemptLaunched":
            place = self.report.places[-1]
            self._remark(f"rented {place.words} at {words.money(place.price_microusd_per_hour)} an hour")
        elif event["type"] == "AttemptLost" and data["failure"]["code"] == "no_capacity":
            self._remark(f"{self.report.places.pop().backend} has none left")

    def _saw_recovery(self, data: dict[str, Any]) -> None:
        if data["failure"]["blame"] != "preemption":
            return
        self.report.work_lost_s = data.get("work_lost_s", 0.0)
        self.report.resumed_from_epoch = (data.get("resume") or {}).get("step")
        self._remark(f"saved at epoch {self.report.resumed_from_epoch}, and left; it goes on elsewhere")

    def _conclude(self, job: Job) -> None:
        ended = job.describe()
        self.report.status = ended["status"]
        self.report.failure = ended.get("failure")
        self.report.accuracy = ended["metrics"].get("accuracy")
        self.report.points_lost = self.report.epochs - len(self._measured)
        fetched = job.fetch(self._directory / "fetched")
        self.report.model_bytes = sum(path.stat().st_size for path in fetched)
        self._compare_bills(ended)

    def _compare_bills(self, ended: dict[str, Any]) -> None:
        assert self._cloud is not None
        books = self._cloud.books()
        self.report.ledger_microusd = ended["cost_microusd"]
        self.report.meter_microusd = sum(entry["billed_microusd"] for entry in books)
        self.report.machines_left = sum(entry["ended_at_ms"] is None for entry in books)

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
        if self._noticed_at is None:
            return "in a moment, the provider will take the machine back"
        if self.report.recovery_s is None:
            return f"the machine is being taken back since epoch {self.report.noticed_at_epoch} …"
        return f"goes on from epoch {self.report.resumed_from_epoch} on {self.report.places[-1].words}"

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
        if self._cloud is not None:
            self._cloud.end()


def _every(seconds: float, act: Callable[[], None]) -> Callable[[], None]:
    acted_at = float("-inf")

    def maybe() -> None:
        nonlocal acted_at
        if time.monotonic() - acted_at >= seconds:
            acted_at = time.monotonic()
            act()

    return maybe
