"""Output that waits to be parsed, in a limited amount of memory."""

from __future__ import annotations

from collections import deque

from anygpu.agent.parsers.lines import LINE_LIMIT, may_be_recognised

LIMIT_BYTES = 4 * 2**20
LIMIT_LINES = 50_000  # parsing them takes about a second
LIMIT_SHAPES = 2_000
LIMIT_SHAPES_BYTES = 2**20

# What differs between two lines of the same form: digits, spaces and the characters of progress bars.
_VARIABLE_BYTES = b"0123456789 #" + bytes(range(128, 256))


class OutputBacklog:
    """A queue of output that waits to be parsed, each piece with the time at which it was printed.

    If the queue exceeds its limits, its older half is thinned: among lines that differ only in their digits
    and in the length of a progress bar, only the last one stays. So the last value of each metric is still
    read, and the position of the run is right.
    """

    def __init__(self, limit_bytes: int = LIMIT_BYTES, limit_lines: int = LIMIT_LINES) -> None:
        self._limit_bytes, self._limit_lines = limit_bytes, limit_lines
        self._pieces: deque[tuple[float, bytes]] = deque()
        self._bytes = self._lines = 0
        self._last_lines: dict[
            bytes, tuple[float, bytes]
        ] = {}  # by shape; older than the pieces, oldest first
        self._last_lines_bytes = 0
        self.dropped_lines = 0

    def __bool__(self) -> bool:
        return bool(self._pieces or self._last_lines)

    def add(self, data: bytes, at: float) -> None:
        self._pieces.append((at, data))
        self._count(data, 1)
        if self._bytes > self._limit_bytes or self._lines > self._limit_lines:
            self._thin_older_half()

    def put_back(self, data: bytes, at: float) -> None:
        """Add output before all other output in the queue: the beginning of a line that was not parsed yet."""
        if not data:
            return
        self._count(data, 1)
        if self._pieces:
            at, rest = self._pieces.popleft()
            data += rest
        self._pieces.appendleft((at, data))

    def take(self) -> tuple[bytes, float]:
        """Remove and return the oldest output, and the time at which it was printed."""
        if self._last_lines:
            lines = list(self._last_lines.values())
            self._last_lines, self._last_lines_bytes = {}, 0
            return b"".join(line + b"\n" for _, line in lines), lines[-1][0]
        at, data = self._pieces.popleft()
        self._count(data, -1)
        return data, at

    def _count(self, data: bytes, sign: int) -> None:
        self._bytes += sign * len(data)
        self._lines += sign * count_lines(data)

    def _thin_older_half(self) -> None:
        at, older = self._take_older_half()
        older = older.replace(b"\r", b"\n")
        end = older.rfind(b"\n") + 1
        self.put_back(older[end : end + LINE_LIMIT], at)
        lines = older[:end].split(b"\n")[:-1]
        self.dropped_lines += len(lines)
        for shape, line in reversed(_last_of_each_shape(lines)):
            self._keep(shape, at, line[:LINE_LIMIT])

    def _take_older_half(self) -> tuple[float, bytes]:
        pieces: list[bytes] = []
        at, bytes_left, lines_left = 0.0, self._limit_bytes // 2, self._limit_lines // 2
        while self._pieces and (self._bytes > bytes_left or self._lines > lines_left):
            at, data = self._pieces.popleft()
            self._count(data, -1)
            pieces.append(data)
        return at, b"".join(pieces)

    def _keep(self, shape: bytes, at: float, line: bytes) -> None:
        self._drop(shape)
        self._last_lines[shape] = at, line
        self._last_lines_bytes += len(line)
        self.dropped_lines -= 1
        while len(self._last_lines) > LIMIT_SHAPES or self._last_lines_bytes > LIMIT_SHAPES_BYTES:
            self._drop(next(iter(self._last_lines)))

    def _drop(self, shape: bytes) -> None:
        known = self._last_lines.pop(shape, None)
        if known is not None:
            self._last_lines_bytes -= len(known[1])
            self.dropped_lines += 1


def count_lines(data: bytes) -> int:
    return data.count(b"\n") + data.count(b"\r")


def _last_of_each_shape(lines: list[bytes]) -> list[tuple[bytes, bytes]]:
    """Return (shape, line) for the last line of each shape, newest first. Skips lines that no parser recognises.

    The shape of a line is its text without the bytes that change between updates, such as digits.
    """
    seen: set[bytes] = set()
    found: list[tuple[bytes, bytes]] = []
    for line in reversed(lines):
        shape = line.translate(None, _VARIABLE_BYTES)
        if shape not in seen:
            seen.add(shape)
            if may_be_recognised(line):
                found.append((shape, line))
    return found
