"""Metrics, progress and checkpoints that the script reports through `import anygpu`, and the steps they belong to."""

from __future__ import annotations

import json
import math
import os
import time
from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from anygpu.agent.link.spool import Point

POLL_S = 0.1  # in the first moments; after a minute a curve may come half a second later
SLOWEST_POLL_S = 0.5
SLOWS_DOWN_OVER_S = 60.0
READ_BYTES = 2**20
MAX_STEP = 2**63
MAX_NAME_LENGTH, MAX_MESSAGE_LENGTH = 256, 1000
KINDS = {"m", "p", "c", "b"}
PROGRESS = {"step": int, "steps": int, "epoch": int, "epochs": int, "fraction": float, "message": str}


class ScriptReports:
    """Follows the file.

    A line that is no line of ours is counted and passed over; half a line is waited for.
    """

    def __init__(self, path: str, steps: StepHistory) -> None:
        self._path = path
        self._steps = steps
        self._fd = -1
        self._partial_line = b""
        self._last_steps: dict[str, int] = {}
        self._last_progress: dict[str, Any] = {}  # of progress: what a call leaves out keeps its value
        self._began_at = 0.0
        self.malformed_lines = 0
        self.on_points: Callable[[list[Point]], None] = lambda points: None
        self.on_progress: Callable[[dict[str, Any]], None] = lambda progress: None
        self.on_checkpoint: Callable[[dict[str, Any]], None] = lambda said: None
        self.on_artifact: Callable[[dict[str, Any]], None] = lambda said: None

    def poll(self, now: float) -> float:
        """A chore of the loop: one system call when nothing is new."""
        self.read()
        self._began_at = self._began_at or now
        aged_s = SLOWEST_POLL_S * (now - self._began_at) / SLOWS_DOWN_OVER_S
        return now + max(POLL_S, min(SLOWEST_POLL_S, aged_s))

    def read(self) -> None:
        if self._fd < 0 and not self._open():
            return
        while True:
            data = os.read(self._fd, READ_BYTES)
            if not data:
                return
            lines = (self._partial_line + data).split(b"\n")
            self._partial_line = lines.pop()
            self._handle_lines([line for line in lines if line])

    def _open(self) -> bool:
        try:
            self._fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return False
        return True

    def _handle_lines(self, lines: list[bytes]) -> None:
        points: list[Point] = []
        for line in lines:
            try:
                self._handle_line(json.loads(line), points)
            except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
                self.malformed_lines += 1
        self._emit_points(points)

    def _emit_points(self, points: list[Point]) -> None:
        if points:
            self.on_points(points[:])
            points.clear()

    def _handle_line(self, said: dict[str, Any], points: list[Point]) -> None:
        if not said.keys() & KINDS:
            raise KeyError("none of m, p, c, b")
        if "m" in said:
            points.extend(self._parse_points(said))
        if "p" in said:
            self._handle_progress(said["p"])
        if "c" in said:
            self._emit_points(points)  # what led to the checkpoint comes before it
            self.on_checkpoint(said["c"])
        if "b" in said:
            self.on_artifact(said["b"])

    def _handle_progress(self, said: dict[str, Any]) -> None:
        known = {name: kind(said[name]) for name, kind in PROGRESS.items() if name in said}
        if "message" in known:
            known["message"] = known["message"][:MAX_MESSAGE_LENGTH]
        self._steps.record(known.get("step"))
        self._last_progress.update(known)
        self.on_progress(dict(self._last_progress))

    def _parse_points(self, said: dict[str, Any]) -> list[Point]:
        at = float(said["t"])
        if not math.isfinite(at):
            raise ValueError("no time")
        found: list[Point] = []
        for name, value in said["m"].items():
            name, number = name[:MAX_NAME_LENGTH], float(value)
            step = self._step_for(name, said.get("s"))
            found.append((name, step, at, number))
            self._steps.record(step, at)
        return found

    def _step_for(self, name: str, said: Any) -> int:
        """Without a step, one more than the series' last; a resumed run goes on from its checkpoint."""
        step = int(said) if said is not None else self._last_steps.get(name, self._steps.first) + 1
        if not -MAX_STEP <= step < MAX_STEP:
            raise ValueError("a step that no store can hold")
        self._last_steps[name] = step
        return step


HISTORY_LIMIT = 4096
RESOLUTION_S = 0.2


class StepHistory:
    def __init__(self, first: int = 0) -> None:
        self.first = self.latest = first
        self._history: deque[tuple[float, int]] = deque([(0.0, first)], maxlen=HISTORY_LIMIT)

    def record(self, step: int | None, at: float | None = None) -> None:
        if step is None or step <= self.latest:
            return
        at = time.time() if at is None else at
        self.latest = step
        if at - self._history[-1][0] < RESOLUTION_S and len(self._history) > 1:
            self._history[-1] = (self._history[-1][0], step)
        else:
            self._history.append((at, step))

    def step_at(self, moment: float) -> int:
        """The step known at that time, or the oldest that is remembered."""
        for at, step in reversed(self._history):
            if at <= moment:
                return step
        return self._history[0][1]
