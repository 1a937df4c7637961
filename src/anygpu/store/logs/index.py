"""A sparse index of the lines of a log: how many lines it has, and where some of them start.

A log is stored as bytes. The index has a mark, which is the number and the offset of a line, about every 64 KiB,
and about every 10 s in which output arrives. A line is found by reading from the last mark before it. The index
is updated when bytes arrive, so that it never has to be built, and it stays correct if the log quota drops bytes.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

MARK_BYTES = 64 * 1024  # a line that is longer is followed by a mark, so that readers can skip it
MARK_MS = 10_000


class LineMark(NamedTuple):
    """The start of a line, and when its first bytes arrived."""

    line: int  # the first line is 1
    offset: int
    at_ms: int


@dataclass(slots=True, kw_only=True)
class LineCount:
    """The number of lines of a log that grows."""

    size: int = 0  # bytes, including those that the quota dropped
    lines: int = 0  # complete lines
    line_start: int = (
        0  # offset of the last line, which is not complete; `size` if the log ends with a line end
    )
    marked: int = 0  # offset of the newest mark
    marked_ms: int = 0

    def add(self, data: bytes, at_ms: int) -> list[LineMark]:
        """Count the lines of bytes that are appended to the log. Return the new marks."""
        marks = [*self._mark_by_time(data, at_ms), *self._mark_by_size(data, at_ms)]
        last = data.rfind(b"\n")
        if last >= 0:
            self.line_start = self.size + last + 1
        self.lines += data.count(b"\n")
        self.size += len(data)
        return marks

    def _mark_by_time(self, data: bytes, at_ms: int) -> Iterator[LineMark]:
        if at_ms - self.marked_ms < MARK_MS:
            return
        start = 0 if self.line_start == self.size else data.find(b"\n") + 1
        if start < len(data) and (start or self.line_start == self.size):
            yield self._mark(data, start, at_ms)

    def _mark_by_size(self, data: bytes, at_ms: int) -> Iterator[LineMark]:
        while True:
            due = max(0, self.marked + MARK_BYTES - self.size - 1)
            end = data.find(b"\n", due)
            if end < 0:
                return
            yield self._mark(data, end + 1, at_ms)

    def _mark(self, data: bytes, start: int, at_ms: int) -> LineMark:
        self.marked, self.marked_ms = self.size + start, at_ms
        return LineMark(self.lines + data.count(b"\n", 0, start) + 1, self.marked, at_ms)


class LogSnapshot(Protocol):
    """A log as it is at one moment: its stored bytes and its marks."""

    @property
    def count(self) -> LineCount: ...

    def read(self, offset: int, limit: int) -> tuple[int, bytes]:
        """Return stored bytes from `offset`, and the offset of the first of them.

        That offset is greater than `offset` if the quota dropped the bytes in between.
        """
        ...

    def marks(self, first: int, last: int) -> list[LineMark]:
        """Return the last mark at or before line `first`, the marks up to line `last`, and the one after that."""
        ...

    def mark_before(self, offset: int) -> LineMark | None:
        """Return the last mark at or before an offset."""
        ...

    def mark_after(self, offset: int) -> LineMark | None:
        """Return the first mark at or after an offset."""
        ...


def total_lines(count: LineCount) -> int:
    """Return the number of lines, including an incomplete last one."""
    return count.lines + (count.line_start < count.size)
