"""Send metrics to experiment trackers from background threads, so that training never waits for a tracker."""

from __future__ import annotations

import atexit
import json
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from anygpu import job
from anygpu.trainers.context import At, Context

FINISHED, FAILED, STOPPED = "finished", "failed", "stopped"


@dataclass(frozen=True, kw_only=True)
class TrackedRun:
    """One training, as experiment trackers show it. A resumed training has the same `key` as before."""

    key: str
    name: str
    trainer: str
    settings: Mapping[str, Any]
    tags: tuple[str, ...]
    output: Path


@dataclass(frozen=True)
class TrackedPoint:
    """Metrics of one step, and when they were measured."""

    metrics: Mapping[str, float]
    step: int
    at_s: float = field(default_factory=time.time)


class Tracker(Protocol):
    """Interface to an experiment tracker. It may be slow or fail, so it is called from a thread of its own."""

    name: str

    def start(self) -> None:
        """Continue the tracker's run that has the training's key, or create a run."""
        ...

    def log(self, points: Sequence[TrackedPoint]) -> None: ...

    def end(self, status: str) -> None: ...

    def files(self) -> Sequence[Path]:
        """Return the files that the tracker wrote and the job should publish as results."""
        ...


EVERY_S = 1.0
MOST_POINTS = 100_000  # queue limit while a tracker does not answer; the oldest are dropped
PATIENCE_S = 20.0  # longest wait for a tracker at the end of a training
LAST_TRIES = 5


class TrackerSender:
    """Queues metrics for one tracker and sends them in batches from a background thread.

    Metrics that could not be sent stay in the queue for the next batch. Only the first failure is printed.
    """

    def __init__(self, tracker: Tracker, *, every_s: float = EVERY_S, patience_s: float = PATIENCE_S) -> None:
        self.tracker = tracker
        self._every_s, self._patience_s = every_s, patience_s
        self._waiting: deque[TrackedPoint] = deque(maxlen=MOST_POINTS)
        self._closing = threading.Event()
        self._status = ""
        self._started = self._warned = False
        self._thread = threading.Thread(target=self._work, name=f"track-{tracker.name}", daemon=True)

    def start(self, untold: Iterable[TrackedPoint] = ()) -> None:
        """Start the thread. `untold` are points that an earlier attempt of this training could not send."""
        self._waiting.extend(untold)
        self._thread.start()

    def put(self, point: TrackedPoint) -> None:
        self._waiting.append(point)

    def unsent(self) -> list[TrackedPoint]:
        """Return the points not yet sent, including those of a batch that is being sent."""
        return list(self._waiting)

    def files(self) -> Sequence[Path]:
        return self.tracker.files()

    def close(self, status: str) -> None:
        """Send all points and end the tracker's run, waiting at most `patience_s`. A second call has no effect."""
        self._status = self._status or status
        self._closing.set()
        self._thread.join(self._patience_s)
        if self._thread.is_alive():
            self._warn("the tracker does not answer; the last metrics may be missing there")

    def _work(self) -> None:
        while not self._closing.wait(self._every_s):
            self._send()
        self._send_rest()
        if self._started:
            self._try(lambda: self.tracker.end(self._status))

    def _send_rest(self) -> None:
        """Send the last points, with a few retries in case the tracker is briefly unavailable."""
        for _ in range(LAST_TRIES):
            self._send()
            if self._started and not self._waiting:
                return
            time.sleep(self._every_s)

    def _send(self) -> None:
        self._started = self._started or self._try(self.tracker.start)
        points = self.unsent()
        if self._started and points and self._try(lambda: self.tracker.log(points)):
            last_sent = points[-1]
            while self._waiting and self._waiting.popleft() is not last_sent:
                pass

    def _try(self, call: Callable[[], None]) -> bool:
        try:
            call()
        except Exception as error:  # noqa: BLE001  a tracker error must not stop training
            self._warn(f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}")
            return False
        return True

    def _warn(self, what: str) -> None:
        if not self._warned:
            self._warned = True
            sys.stderr.write(f"track.{self.tracker.name}: {what} (training goes on)\n")


UNSENT_POINTS_FILE = "untold-points.json"  # file in a checkpoint with the unsent points
MOST_KEPT = 2_000


class TrackingContext:
    """Context that also sends metrics to trackers. Each checkpoint includes the metrics not yet sent."""

    def __init__(self, context: Context, senders: Sequence[TrackerSender]) -> None:
        self._context = context
        self._senders = senders
        unsent = _load_unsent(context.restore())
        for sender in senders:
            sender.start(unsent.get(sender.tracker.name, ()))
        atexit.register(self.end, STOPPED)  # in case `end` is never called

    def report(self, metrics: Mapping[str, float], at: At) -> None:
        self._context.report(metrics, at)
        if metrics:
            point = TrackedPoint(
                {**metrics, **({} if at.epoch is None else {"epoch": float(at.epoch)})}, at.step
            )
            for sender in self._senders:
                sender.put(point)

    def add_to(self, draft: Path) -> None:
        _save_unsent(draft, {sender.tracker.name: sender.unsent()[-MOST_KEPT:] for sender in self._senders})

    def checkpoint(self, path: Path, *, step: int, wait: bool = False) -> None:
        self._context.checkpoint(path, step=step, wait=wait)
        self._keep_files()

    def restore(self) -> Path | None:
        return self._context.restore()

    def should_stop(self) -> bool:
        return self._context.should_stop()

    def workplace(self, output_dir: Path) -> Path:
        return self._context.workplace(output_dir)

    def best(self, path: Path) -> None:
        self._context.best(path)

    def artifact(self, path: Path) -> None:
        self._context.artifact(path)

    def end(self, status: str) -> None:
        """Close the trackers with a status: finished, failed or stopped. A second call has no effect."""
        atexit.unregister(self.end)
        for sender in self._senders:
            sender.close(status)
        self._keep_files()
        self._senders = ()

    def _keep_files(self) -> None:
        for sender in self._senders:
            for path in sender.files():
                job.artifact(path, name=f"{sender.tracker.name}/{path.name}")


def _save_unsent(checkpoint: Path, unsent: Mapping[str, Sequence[TrackedPoint]]) -> None:
    points = {
        name: [[each.step, each.at_s, dict(each.metrics)] for each in some] for name, some in unsent.items()
    }
    (checkpoint / UNSENT_POINTS_FILE).write_text(json.dumps(points))


def _load_unsent(checkpoint: Path | None) -> dict[str, list[TrackedPoint]]:
    if checkpoint is None or not (checkpoint / UNSENT_POINTS_FILE).exists():
        return {}
    saved = json.loads((checkpoint / UNSENT_POINTS_FILE).read_text())
    return {
        name: [TrackedPoint(metrics, step, at_s) for step, at_s, metrics in some]
        for name, some in saved.items()
    }
