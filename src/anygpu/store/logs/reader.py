"""Read the lines of a log in order, from any line.

Lines longer than `MAX_LINE_BYTES` are not read as a whole: a progress bar can write a day of output into one line.
"""

from collections.abc import Iterator
from typing import NamedTuple

from anygpu.store.logs.index import LineMark, LogSnapshot

MAX_LINE_BYTES = 64 * 1024
BLOCK_BYTES = 64 * 1024


class StoredLine(NamedTuple):
    """A line: its bytes, or if it is too long, the bytes that matter."""

    number: int
    offset: int
    data: bytes
    data_offset: int  # of the first byte of `data`; greater than `offset` if `data` is the end of a long line
    end: int  # offset after the line and its line end


class LineReader:
    """Reads lines from a mark on. `bytes_read` counts what was read, so that callers can limit the work."""

    def __init__(self, log: LogSnapshot, mark: LineMark) -> None:
        self._log = log
        self._number, self._offset = mark.line, mark.offset
        self._block = b""  # bytes from `_offset` on
        self._position = 0  # of the next line in the block
        self._is_gap_next = False  # the quota dropped the bytes after the block
        self.bytes_read = 0

    def lines(self) -> Iterator[StoredLine]:
        while line := self._next():
            yield line

    def _next(self) -> StoredLine | None:
        while True:
            end = self._block.find(b"\n", self._position)
            if end >= 0:
                return self._take(end, end + 1)
            if len(self._block) - self._position >= MAX_LINE_BYTES:
                return self._take_long()
            if not self._fill():
                return self._take_rest()
            if self._is_gap_next:
                return self._take_rest() or self._next()

    @property
    def _start(self) -> int:
        """The offset of the next line."""
        return self._offset + self._position

    def _fill(self) -> bool:
        """Append the next bytes of the log to the block. Return False at its end."""
        self._block, self._offset, self._position = self._block[self._position :], self._start, 0
        expected = self._offset + len(self._block)
        start, data = self._log.read(expected, BLOCK_BYTES)
        self.bytes_read += len(data)
        self._is_gap_next = bool(data) and start > expected
        if not self._is_gap_next:
            self._block += data
        return bool(data)

    def _take(self, end: int, after: int) -> StoredLine:
        start = self._start
        line = StoredLine(self._number, start, self._block[self._position : end], start, self._offset + after)
        self._position = after
        self._number += 1
        return line

    def _take_rest(self) -> StoredLine | None:
        """Take what is left: the last line, or a line whose end the quota dropped."""
        rest = self._take(len(self._block), len(self._block)) if self._position < len(self._block) else None
        if self._is_gap_next:
            self._is_gap_next = False
            self._move_to(*position_after_gap(self._log, self._start))
        return rest

    def _take_long(self) -> StoredLine:
        """Take a line of which only the end is read if it has carriage returns, and only the beginning if not."""
        start, head = self._start, self._block[self._position : self._position + MAX_LINE_BYTES]
        after = self._end_of_line()
        end = after - 1 if after <= self._log.count.line_start else after
        tail_start = max(start, end - MAX_LINE_BYTES)
        tail = _read_range(self._log, tail_start, end)
        self.bytes_read += len(tail)
        ends_with_text = b"\r" in tail.rstrip(b"\r")
        data, data_offset = (tail, tail_start) if ends_with_text else (head, start)
        line = StoredLine(self._number, start, data, data_offset, after)
        self._move_to(self._number + 1, after)
        return line

    def _end_of_line(self) -> int:
        """Return the offset after the current line, which is long."""
        count = self._log.count
        if self._number > count.lines:
            return count.size
        if self._number == count.lines:
            return count.line_start
        mark = self._log.marks(self._number + 1, self._number + 1)[0]
        return mark.offset if mark.line == self._number + 1 else self._find_end()

    def _find_end(self) -> int:
        """Return the offset after the current line by reading to its end. Needed only if the quota dropped its mark."""
        offset = self._start
        while True:
            start, data = self._log.read(offset, 16 * BLOCK_BYTES)
            self.bytes_read += len(data)
            end = data.find(b"\n")
            if not data or start > offset:
                return offset
            if end >= 0:
                return start + end + 1
            offset = start + len(data)

    def _move_to(self, number: int, offset: int) -> None:
        self._number, self._offset, self._block, self._position = number, offset, b"", 0


def position_after_gap(log: LogSnapshot, offset: int) -> tuple[int, int]:
    """Return number and offset of the first complete line after the bytes that the quota dropped at `offset`."""
    start, _ = log.read(offset, 1)
    count = log.count
    mark = log.mark_after(start)
    if mark is None and start > count.line_start:
        return count.lines + 1, start
    line, at = (mark.line, mark.offset) if mark else (count.lines + 1, count.line_start)
    if at == start:
        return line, at
    data = _read_range(log, start, at)
    first_end = data.find(b"\n")
    return line - data.count(b"\n") + 1, start + first_end + 1


def _read_range(log: LogSnapshot, start: int, end: int) -> bytes:
    """Read the bytes from `start` to `end`, or to the first byte that was dropped."""
    data = bytearray()
    while start + len(data) < end:
        found, part = log.read(start + len(data), end - start - len(data))
        if not part or found > start + len(data):
            break
        data += part
    return bytes(data)
