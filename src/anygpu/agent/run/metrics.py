"""Read what the script reports through `import anygpu` (metrics, progress, checkpoints), and assign steps to it."""

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

POLL_S = 0.1  # at the start; grows to SLOWEST_POLL_S within a minute
SLOWEST_POLL_S = 0.5
SLOWS_DOWN_OVER_S = 60.0
READ_BYTES = 2**20
MAX_STEP = 2**63
MAX_NAME_LENGTH, MAX_MESSAGE_LENGTH = 256, 1000
KINDS = {"m", "p", "c", "b"}
PROGRESS = {"step": int, "steps": int, "epoch": int, "epochs": int, "fraction": float, "message": str}


class ScriptReports:
    """Reads points.jsonl, the file to which `import anygpu` in the script writes its reports.

    Invalid lines are counted and skipped. An incomplete last line is kept until the rest of it is written.
    """

    def __init__(self, path: str, steps: StepHistory) -> None:
        self._path = path
        self._steps = steps
        self._fd = -1
        self._partial_line = b""
        self._last_steps: dict[str, int] = {}
        self._last_progress: dict[str, Any] = {}  # a value that a call leaves out keeps its last value
        self._started_at = 0.0
        self.malformed_lines = 0
        self.on_points: Callable[[list[Point]], None] = lambda points: None
        self.on_progress: Callable[[dict[str, Any]], None] = lambda progress: None
        self.on_checkpoint: Callable[[dict[str, Any]], None] = lambda announced: None
        self.on_artifact: Callable[[dict[str, Any]], None] = lambda announced: None

    def poll(self, now: float) -> float:
        """Read new lines, and return the time of the next poll (monotonic clock).

        Takes only one system call if there is nothing new.
        """
        self.read()
        self._started_at = self._started_at or now
        grown_s = SLOWEST_POLL_S * (now - self._started_at) / SLOWS_DOWN_OVER_S
        return now + max(POLL_S, min(SLOWEST_POLL_S, grown_s))

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

    def _handle_line(self, line: dict[str, Any], points: list[Point]) -> None:
        if not line.keys() & KINDS:
            raise KeyError("none of m, p, c, b")
        if "m" in line:
            points.extend(self._parse_points(line))
        if "p" in line:
            self._handle_progress(line["p"])
        if "c" in line:
            self._emit_points(points)  # report the points from before the checkpoint first
            self.on_checkpoint(line["c"])
        if "b" in line:
            self.on_artifact(line["b"])

    def _handle_progress(self, values: dict[str, Any]) -> None:
        progress = {name: convert(values[name]) for name, convert in PROGRESS.items() if name in values}
        if "message" in progress:
            progress["message"] = progress["message"][:MAX_MESSAGE_LENGTH]
        self._steps.record(progress.get("step"))
        self._last_progress.update(progress)
        self.on_progress(dict(self._last_progress))

    def _parse_points(self, line: dict[str, Any]) -> list[Point]:
        at = float(line["t"])
        if not math.isfinite(at):
            raise ValueError("the time is not a finite number")
        points: list[Point] = []
        for name, value in line["m"].items():
            name, number = name[:MAX_NAME_LENGTH], float(value)
            step = self._step_for(name, line.get("s"))
            points.append((name, step, at, number))
            self._steps.record(step, at)
        return points

    def _step_for(self, name: str, given: Any) -> int:
        """Return the step of a metric point: `given`, or else one more than the last step of metric `name`.

        Without any earlier point, the count starts at the step that the job resumed from.
        """
        step = int(given) if given is not None else self._last_steps.get(name, self._steps.first) + 1
        if not -MAX_STEP <= step < MAX_STEP:
            raise ValueError("the step is out of range")
        self._last_steps[name] = step
        return step


HISTORY_LIMIT = 4096
RESOLUTION_S = 0.2


class StepHistory:
    """The steps that training reached and when. Used to tell at which step a checkpoint file was written."""

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
        """Return the step that training had reached at `moment` (Unix time), or the oldest known step."""
        for at, step in reversed(self._history):
            if at <= moment:
                return step
        return self._history[0][1]
