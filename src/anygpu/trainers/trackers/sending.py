"""Training never waits for a tracker: a thread takes what is to be told, and tells it."""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from anygpu.trainers.trackers.run import Point, Tracker

EVERY_S = 1.0
MOST_POINTS = 100_000  # that wait for a tracker that does not answer; then the oldest are left out
PATIENCE_S = 20.0  # at the end of a training
LAST_TRIES = 5


class Sender:
    """Points in, batches out. What fails is said once, kept, and tried again with the next batch."""

    def __init__(self, tracker: Tracker, *, every_s: float = EVERY_S, patience_s: float = PATIENCE_S) -> None:
        self.tracker = tracker
        self._every_s, self._patience_s = every_s, patience_s
        self._waiting: deque[Point] = deque(maxlen=MOST_POINTS)
        self._closing = threading.Event()
        self._status = ""
        self._started = self._warned = False
        self._thread = threading.Thread(target=self._work, name=f"track-{tracker.name}", daemon=True)

    def start(self, untold: Iterable[Point] = ()) -> None:
        """`untold`: what an earlier attempt had not come to tell."""
        self._waiting.extend(untold)
        self._thread.start()

    def put(self, point: Point) -> None:
        self._waiting.append(point)

    def untold(self) -> list[Point]:
        """What is being told counts as untold until it is known to have arrived."""
        return list(self._waiting)

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
        while not self._closing.wait(self._every_s):
            self._tell()
        self._tell_the_rest()
        if self._started:
            self._tried(lambda: self.tracker.end(self._status))

    def _tell_the_rest(self) -> None:
        """Training is over: a tracker that is away for a moment is given a few more chances."""
        for _ in range(LAST_TRIES):
            self._tell()
            if self._started and not self._waiting:
                return
            time.sleep(self._every_s)

    def _tell(self) -> None:
        self._started = self._started or self._tried(self.tracker.start)
        points = self.untold()
        if self._started and points and self._tried(lambda: self.tracker.log(points)):
            told = points[-1]
            while self._waiting and self._waiting.popleft() is not told:
                pass

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
