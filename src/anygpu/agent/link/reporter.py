"""Collect output, metrics, progress and telemetry, and write them in batches to the spool (reports on disk)."""

from __future__ import annotations

import time

from anygpu.agent.link.spool import encode_points
from anygpu.bounds import FIRST_STEPS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from anygpu.agent.link.spool import Point, Spool

POINTS_PER_FRAME = 400  # less than 1 MiB even if every name has the maximum length
# A user watches the first minute of a job line by line, so reports start at a short interval. It grows to one second,
# which costs the training less, and metrics may wait a little longer than output. While a page in a browser shows the
# job, the interval is always short.
METRICS_DELAY_FACTOR = 2.5
SLOW_INTERVAL_S = 1.0
SLOWS_DOWN_OVER_S = 60.0


class Reporter:
    """Collects the job's output, metrics and progress, and writes them in batches to the spool (reports on disk).

    Used by the main thread only.
    """

    def __init__(
        self,
        spool: Spool,
        every_s: float,
        frame_bytes: int,
        wake_sender: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
        is_watched: Callable[[], bool] = lambda: False,
    ) -> None:
        self._spool = spool
        self._every_s = every_s
        self._frame_bytes = frame_bytes
        self._wake_sender = wake_sender
        self._clock = clock
        self._is_watched = is_watched
        self._output = bytearray()
        self._is_line_open = False  # the output ends with a part of a line, such as a progress bar
        self._points: list[Point] = []
        self._progress: dict[str, Any] = {}  # every value reported so far
        self._progress_changed = False
        self._due_at: float | None = None
        self._started_at = clock()
        self._flushed_at = self._started_at - every_s * METRICS_DELAY_FACTOR
        self._disk_full_since: float | None = None
        self.has_metrics = True  # False on the nodes whose metrics and progress the server does not store

    def write_output(self, data: bytes) -> None:
        self._output += data
        self._is_line_open = not data.endswith(b"\n") if data else self._is_line_open
        while len(self._output) >= self._frame_bytes:
            self._spool.append_log(bytes(self._output[: self._frame_bytes]))
            del self._output[: self._frame_bytes]
            self._wake_sender()
        self._schedule_flush()

    def write_line(self, text: str) -> None:
        """Write a message of the agent into the job's log, on a line of its own."""
        start = "\n" if self._is_line_open else ""
        self.write_output(f"{start}[anygpu] {text}\n".encode("utf-8", "replace"))

    def add_points(self, points: Sequence[Point]) -> None:
        if not self.has_metrics:
            return
        self._points += points
        self._schedule_flush(METRICS_DELAY_FACTOR)

    def replace_progress(self, progress: dict[str, Any]) -> None:
        """Report the progress that the script itself reports, in place of what was read from its output."""
        self._progress = {name: self._progress[name] for name in FIRST_STEPS if name in self._progress}
        self.update_progress(progress)

    def update_progress(self, progress: dict[str, Any]) -> None:
        if not self.has_metrics:
            return
        self._progress.update(progress)
        self._progress_changed = True
        self._schedule_flush(METRICS_DELAY_FACTOR)

    def add_telemetry(self, sample: dict[str, Any]) -> None:
        self._spool.append("telemetry", sample)
        self._schedule_flush()

    def start_phase(self, phase: str, message: str = "") -> None:
        """Report that the attempt enters a new phase. The report is sent with the next output, or shortly after."""
        self.flush(wake=False)
        self._spool.append("phase", {"phase": phase, "message": message})
        self._due_at = self._clock() + self._every_s

    @property
    def last_seq(self) -> int:
        """The sequence number of the last report."""
        return self._spool.last_seq

    @property
    def acked_seq(self) -> int:
        """The sequence number of the last report that the server has stored."""
        return self._spool.acked

    @property
    def due_at(self) -> float | None:
        return self._due_at

    def flush_when_due(self) -> None:
        if self._due_at is not None and self._due_at <= self._clock():
            self.flush()

    def flush(self, wake: bool = True) -> None:
        self._due_at = None
        if self._output or self._points:
            self._flushed_at = self._clock()
        if self._output:
            self._spool.append_log(bytes(self._output))
            self._output.clear()
        self._flush_points()
        if self._progress_changed:
            self._spool.append("progress", self._progress)
            self._progress_changed = False
        self._report_disk_recovery()
        if wake:
            self._wake_sender()

    def _flush_points(self) -> None:
        for start in range(0, len(self._points), POINTS_PER_FRAME):
            batch = self._points[start : start + POINTS_PER_FRAME]
            self._spool.append("metrics", {"points": encode_points(batch)})
        self._points.clear()

    def _schedule_flush(self, delay_factor: float = 1.0) -> None:
        at = self._flushed_at + self._interval_s(delay_factor)
        if self._clock() >= at:
            self.flush()
        elif self._due_at is None or self._due_at > at:
            self._due_at = at

    def _interval_s(self, delay_factor: float) -> float:
        if self._is_watched():
            return self._every_s
        grown_s = SLOW_INTERVAL_S * (self._clock() - self._started_at) / SLOWS_DOWN_OVER_S
        return max(self._every_s, min(SLOW_INTERVAL_S, max(self._every_s, grown_s) * delay_factor))

    def _report_disk_recovery(self) -> None:
        now = self._clock()
        if self._spool.disk_is_full:
            self._disk_full_since = self._disk_full_since or now
        elif self._disk_full_since is not None:
            full_s, self._disk_full_since = now - self._disk_full_since, None
            self._spool.append_log(
                f"[anygpu] the disk was full for {full_s:.0f} s; it has space again\n".encode()
            )
