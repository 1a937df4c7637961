"""What the script said through `import anygpu`: the tail of points.jsonl."""

from __future__ import annotations

import json
import math
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from anygpu.agent.frames import Point
    from anygpu.agent.steps import Steps

LOOK_EVERY_S = 0.1  # in the first moments; after a minute a curve may come half a second later
LOOK_AT_LEAST_EVERY_S = 0.5
RELAXES_OVER_S = 60.0
READ_BYTES = 2**20
LARGEST_STEP = 2**63
LONGEST_NAME, LONGEST_MESSAGE = 256, 1000
KINDS = {"m", "p", "c", "b"}
PROGRESS = {"step": int, "steps": int, "epoch": int, "epochs": int, "fraction": float, "message": str}


class Points:
    """Follows the file.

    A line that is no line of ours is counted and passed over; half a line is waited for.
    """

    def __init__(self, path: str, steps: Steps) -> None:
        self._path = path
        self._steps = steps
        self._fd = -1
        self._rest = b""
        self._last_steps: dict[str, int] = {}
        self._known: dict[str, Any] = {}  # of progress: what a call leaves out keeps its value
        self._began_at = 0.0
        self.malformed = 0
        self.on_points: Callable[[list[Point]], None] = lambda points: None
        self.on_progress: Callable[[dict[str, Any]], None] = lambda progress: None
        self.on_checkpoint: Callable[[dict[str, Any]], None] = lambda said: None
        self.on_artifact: Callable[[dict[str, Any]], None] = lambda said: None

    def look(self, now: float) -> float:
        """A chore of the loop: one system call when nothing is new."""
        self.read()
        self._began_at = self._began_at or now
        aged_s = LOOK_AT_LEAST_EVERY_S * (now - self._began_at) / RELAXES_OVER_S
        return now + max(LOOK_EVERY_S, min(LOOK_AT_LEAST_EVERY_S, aged_s))

    def read(self) -> None:
        if self._fd < 0 and not self._open():
            return
        while True:
            data = os.read(self._fd, READ_BYTES)
            if not data:
                return
            lines = (self._rest + data).split(b"\n")
            self._rest = lines.pop()
            self._take([line for line in lines if line])

    def _open(self) -> bool:
        try:
            self._fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return False
        return True

    def _take(self, lines: list[bytes]) -> None:
        points: list[Point] = []
        for line in lines:
            try:
                self._take_line(json.loads(line), points)
            except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
                self.malformed += 1
        self._tell(points)

    def _tell(self, points: list[Point]) -> None:
        if points:
            self.on_points(points[:])
            points.clear()

    def _take_line(self, said: dict[str, Any], points: list[Point]) -> None:
        if not said.keys() & KINDS:
            raise KeyError("none of m, p, c, b")
        if "m" in said:
            points.extend(self._points(said))
        if "p" in said:
            self._progress(said["p"])
        if "c" in said:
            self._tell(points)  # what led to the checkpoint comes before it
            self.on_checkpoint(said["c"])
        if "b" in said:
            self.on_artifact(said["b"])

    def _progress(self, said: dict[str, Any]) -> None:
        known = {name: kind(said[name]) for name, kind in PROGRESS.items() if name in said}
        if "message" in known:
            known["message"] = known["message"][:LONGEST_MESSAGE]
        self._steps.note(known.get("step"))
        self._known.update(known)
        self.on_progress(dict(self._known))

    def _points(self, said: dict[str, Any]) -> list[Point]:
        at = float(said["t"])
        if not math.isfinite(at):
            raise ValueError("no time")
        found: list[Point] = []
        for name, value in said["m"].items():
            name, number = name[:LONGEST_NAME], float(value)
            step = self._step(name, said.get("s"))
            found.append((name, step, at, number))
            self._steps.note(step, at)
        return found

    def _step(self, name: str, said: Any) -> int:
        """Without a step, one more than the series' last; a resumed run goes on from its checkpoint."""
        step = int(said) if said is not None else self._last_steps.get(name, self._steps.first) + 1
        if not -LARGEST_STEP <= step < LARGEST_STEP:
            raise ValueError("a step that no store can hold")
        self._last_steps[name] = step
        return step
