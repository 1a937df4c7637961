"""The job's output, on its way: masked, reported, and read for metrics and progress."""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from anygpu.agent.output import Mask
    from anygpu.agent.report import Report
    from anygpu.agent.steps import Steps

TAIL_BYTES = 2000
IDLE_S = 0.5
READING_SHARE = 0.05
READING_BURST_S = 0.5


class Stream:
    """Bytes in, frames out.

    Reading metrics from them has a small share of the time and never holds up the pipe.
    """

    def __init__(self, report: Report, mask: Mask, steps: Steps) -> None:
        self._report = report
        self._mask = mask
        self._steps = steps
        self._reader: Any = None
        self._began_at = time.monotonic()
        self._reading_s = 0.0
        self._rested_since = self._began_at
        self._tail = b""
        self.script_logs_itself = False
        self.script_tells_progress = False

    def take(self, data: bytes) -> None:
        clean = self._mask.feed(data)
        self._rested_since = time.monotonic()
        if clean:
            self._pass_on(clean)

    def rest(self, now: float) -> float:
        """A prompt without a newline may look like the beginning of a secret; it must not wait for ever."""
        if self._mask.is_holding and now - self._rested_since >= IDLE_S:
            self._pass_on(self._mask.idle())
        if self._reader is not None:
            self._read(b"")  # what the reader held back to be brief is said while nothing else is
        return now + IDLE_S

    def close(self) -> None:
        self._pass_on(self._mask.close())
        if self._reader is not None and self._reading_s != float("inf"):
            self._handle(self._reader.close(time.time()))
        self._report.flush()

    def last_line(self) -> str:
        """What the job said last: the most useful thing to show when it failed."""
        lines = [line.strip() for line in self._tail.replace(b"\r", b"\n").split(b"\n")]
        said = [line for line in lines if line]
        return said[-1][-500:].decode("utf-8", "replace") if said else ""

    def _pass_on(self, clean: bytes) -> None:
        if not clean:
            return
        self._report.output(clean)
        self._tail = (self._tail + clean)[-TAIL_BYTES:]
        began = time.monotonic()
        if self._reading_s <= READING_BURST_S + READING_SHARE * (began - self._began_at):
            self._read(clean)
            self._reading_s += time.monotonic() - began
        elif self._reader is not None:
            self._reader.skip()

    def _read(self, clean: bytes) -> None:
        if self._reading_s == float("inf"):
            return
        if self._reader is None:
            from anygpu.agent.reading import Reader

            self._reader = Reader()
        try:
            self._handle(self._reader.feed(clean, time.time()))
        except Exception as error:
            # Reading metrics is a service; a surprise in it must not cost anyone a training run.
            self._reading_s = float("inf")
            self._report.line(f"metrics are no longer read from the output: {error!r}")

    def _handle(self, readings: list[Any]) -> None:
        for kind, found in readings:
            if kind == "progress" and not self.script_tells_progress:
                self._steps.note(found.get("step"))
                self._report.progress(found)
            elif kind == "points" and not self.script_logs_itself:
                for point in found:
                    self._steps.note(point[1])
                self._report.points(found)
