"""The seam: bytes of output go in, points and progress come out."""

from __future__ import annotations

from anygpu.agent.reading import families
from anygpu.agent.reading.lines import Lines
from anygpu.agent.reading.run import Run

TYPE_CHECKING = False  # importing typing would cost more than this whole package
if TYPE_CHECKING:
    from typing import Any

    Reading = tuple[str, Any]

RESTING_S = 1.0


class Reader:
    """Reads one run's merged stdout and stderr, in whatever pieces it comes.

    What is read does not depend on how the bytes were cut. A progress reading is the whole of what is known:
    a key it leaves out is not known. `feed(b"", now)` gives progress that was held back to keep its rate low, and
    reads a bar that has stood still for RESTING_S; call it now and then while nothing is printed.
    """

    def __init__(self) -> None:
        self._lines = Lines()
        self._run = Run()
        self._moved_at: float | None = None

    def feed(self, data: bytes, now: float) -> list[Reading]:
        if data:
            self._moved_at = now
            return self._read(self._lines.feed(data), now)
        return self._read(self._resting(now), now)

    def skip(self) -> None:
        """Bytes were left out here. The line they tore is not read, so that no half number becomes a value."""
        self._lines.tear()

    def close(self, now: float) -> list[Reading]:
        """What the last, unfinished line and everything held back give. Nothing may be fed afterwards."""
        self._read_lines(self._lines.close(), now)
        self._run.finish()
        return self._run.take()

    def _read(self, lines: list[str], now: float) -> list[Reading]:
        self._read_lines(lines, now)
        self._run.tell_progress()
        return self._run.take()

    def _resting(self, now: float) -> list[str]:
        if self._moved_at is None or now - self._moved_at < RESTING_S:
            return []
        self._moved_at = None
        return self._lines.resting()

    def _read_lines(self, lines: list[str], now: float) -> None:
        self._run.now = now
        for line in lines:
            rest: bool | str = line
            while isinstance(rest, str):
                rest = self._read_line(rest)

    def _read_line(self, line: str) -> bool | str:
        for family in families.for_line(line):
            try:
                read = family(line, self._run)
            except Exception:
                # A line no one foresaw must cost its own reading, never the job's output.
                continue
            if read:
                self._run.tell_progress()
                return read
        return False
