"""Read what the script reports through `import anygpu` (metrics, progress, checkpoints), and assign steps to it."""

from __future__ import annotations

import json
import os

from anygpu import bounds
from anygpu.job import open_regular

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from anygpu.agent.checkpoints.steps import StepHistory
    from anygpu.agent.link.spool import Point

POLL_S = 0.1  # at the start; grows to SLOWEST_POLL_S within a minute
SLOWEST_POLL_S = 0.5
SLOWS_DOWN_OVER_S = 60.0
READ_BYTES = 2**20
MAX_READS = 64  # in one call; a script that writes all the time must not keep the agent from its other tasks
MAX_LINE_BYTES = 4 * 2**20
KINDS = {"m", "p", "c", "b"}
PROGRESS = {"step": int, "steps": int, "epoch": int, "epochs": int, "fraction": float, "message": str}


class ScriptReports:
    """Reads points.jsonl, the file to which `import anygpu` in the script writes its reports.

    Invalid lines are counted and skipped. Values outside the range of `anygpu.bounds` are dropped, and
    `on_warning` is called once for each kind of value. An incomplete last line is kept until the rest of it
    is written. The script can put anything at the path of the file; only a regular file is read.
    """

    def __init__(self, path: str, steps: StepHistory) -> None:
        self._path = path
        self._steps = steps
        self._fd = -1
        self._partial_line = b""
        self._last_steps: dict[str, int] = {}
        self._last_progress: dict[str, Any] = {}  # a value that a call leaves out keeps its last value
        self._started_at = 0.0
        self._warned: set[str] = set()
        self.malformed_lines = 0
        self.on_points: Callable[[list[Point]], None] = lambda points: None
        self.on_progress: Callable[[dict[str, Any]], None] = lambda progress: None
        self.on_checkpoint: Callable[[dict[str, Any]], None] = lambda announced: None
        self.on_artifact: Callable[[dict[str, Any]], None] = lambda announced: None
        self.on_warning: Callable[[str], None] = lambda text: None

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
        for _ in range(MAX_READS):
            data = os.read(self._fd, READ_BYTES)
            if not data:
                return
            lines = (self._partial_line + data).split(b"\n")
            self._partial_line = lines.pop()
            if len(self._partial_line) > MAX_LINE_BYTES:
                self._partial_line = b"!"  # the rest of the line completes a line that is malformed
            self._handle_lines([line for line in lines if line])

    def _open(self) -> bool:
        try:
            self._fd = open_regular(self._path, os.O_NOFOLLOW)
        except FileNotFoundError:
            return False
        except OSError as error:
            if "file" not in self._warned:
                self._warned.add("file")
                self.on_warning(
                    f"The metrics that the script reports with `import anygpu` cannot be read: {error}"
                )
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
            raise KeyError(
                "the report has none of the fields m (metrics), p (progress), c (checkpoint), b (best)"
            )
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
        given = {
            name: convert(values[name]) for name, convert in PROGRESS.items() if values.get(name) is not None
        }
        if not bounds.is_fraction(given.get("fraction", 0)):
            self._warn(
                "fraction", f"the value {_shorten(given.pop('fraction'))} of anygpu.progress(fraction=...)"
            )
        progress = bounds.valid_progress(given)
        for name in given.keys() - progress.keys():
            self._warn(
                f"progress {name}", f"the value {_shorten(given[name])} of anygpu.progress({name}=...)"
            )
        self._steps.record(progress.get("step"))
        self._steps.record(progress.get("epoch"), unit="epoch")
        self._last_progress.update(progress)
        self.on_progress(dict(self._last_progress))

    def _parse_points(self, line: dict[str, Any]) -> list[Point]:
        at = float(line["t"])
        if not bounds.is_time(at):
            self._warn("time", f"the time {_shorten(at)} of a metric report")
            return []
        points: list[Point] = []
        given_step = self._parse_step(line.get("s"))
        for name, value in line["m"].items():
            number = bounds.to_metric_value(value)
            if number is None:
                self._warn("value", f"the value of metric {_shorten(name)}")
            elif self._is_valid_name(name):
                step = self._step_for(name, given_step)
                points.append((name, step, at, number))
                self._steps.record(step, at, "" if given_step is None else "step")
        return points

    def _parse_step(self, given: Any) -> int | None:
        step = None if given is None else int(given)
        if step is None or bounds.is_step(step):
            return step
        self._warn(
            "step", f"the step {_shorten(step)} of anygpu.log(step=...)", "; the points are numbered 1, 2, 3"
        )
        return None

    def _is_valid_name(self, name: str) -> bool:
        if name in self._last_steps:
            return True
        if not bounds.is_metric_name(name):
            self._warn(
                "name", f"the metric name {_shorten(name)}", f" (at most {bounds.MAX_NAME_LENGTH} characters)"
            )
            return False
        if len(self._last_steps) >= bounds.MAX_METRIC_NAMES:
            self._warn("names", f"metric {_shorten(name)}", f" (at most {bounds.MAX_METRIC_NAMES} metrics)")
            return False
        return True

    def _step_for(self, name: str, given: int | None) -> int:
        """Return the step of a metric point: `given`, or else one more than the last step of metric `name`.

        Without any earlier point, the count starts at the step that the job resumed from.
        """
        step = self._last_steps.get(name, self._steps.restored) + 1 if given is None else given
        self._last_steps[name] = step = min(step, bounds.MAX_INTEGER)
        return step

    def _warn(self, kind: str, what: str, more: str = "") -> None:
        if kind not in self._warned:
            self._warned.add(kind)
            self.on_warning(f"{what} is out of range and is ignored{more}; this is reported once")


def _shorten(value: object) -> str:
    return ascii(value)[:60]
