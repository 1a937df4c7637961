"""Training never waits for a tracker: a thread takes what is to be told, and tells it."""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from anygpu.trainers.trackers.run import Point, Tracker

EVERY_S = 1.0
MOST_POINTS = 100_000  # that wait for a tracker that does not answer
PATIENCE_S = 20.0  # at the end of a training


class Sender:
    """Points in, batches out. What fails is said once, kept, and tried again with the next batch."""

    def __init__(self, tracker: Tracker, *, every_s: float = EVERY_S, patience_s: float = PATIENCE_S) -> None:
        self.tracker = tracker
        self._every_s, self._patience_s = every_s, patience_s
        self._points: queue.Queue[Point] = queue.Queue(MOST_POINTS)
        self._closing = threading.Event()
        self._status = ""
        self._started = self._warned = False
        self._thread = threading.Thread(target=self._work, name=f"track-{tracker.name}", daemon=True)
        self._thread.start()

    def put(self, point: Point) -> None:
        try:
            self._points.put_nowait(point)
        except queue.Full:
            self._warn(f"{MOST_POINTS:,} numbers wait for it; the next are left out")

    def files(self) -> Sequence[Path]:
        return self.tracker.files()

    def close(self, status: str) -> None:
        """Everything is told, or patience has run out. Twice is the same as once."""
        self._status = self._status or status
        self._closing.set()
        self._thread.join(self._patience_s)
        if self._thread.is_alive():
            self._warn("it does not answer; the last numbers may be missing there")

    def _work(self) -> None:
        waiting: list[Point] = []
        while not self._closing.wait(self._every_s):
            waiting = self._told(waiting)
        self._told(waiting)
        if self._started:
            self._tried(lambda: self.tracker.end(self._status))

    def _told(self, waiting: list[Point]) -> list[Point]:
        """What is still to be told."""
        waiting = [*waiting, *self._taken()][-MOST_POINTS:]
        self._started = self._started or self._tried(self.tracker.start)
        done = self._started and (not waiting or self._tried(lambda: self.tracker.log(waiting)))
        return [] if done else waiting

    def _taken(self) -> list[Point]:
        taken = []
        while not self._points.empty():
            taken.append(self._points.get_nowait())
        return taken

    def _tried(self, call: Callable[[], None]) -> bool:
        try:
            call()
        except Exception as error:  # noqa: BLE001  whatever a tracker raises, training goes on
            self._warn(f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}")
            return False
        return True

    def _warn(self, what: str) -> None:
        if not self._warned:
            self._warned = True
            sys.stderr.write(f"track.{self.tracker.name}: {what} (training goes on)\n")
