"""A log in memory that is read like a stored one, and random logs with the lines that they should have."""

import random

from anygpu.store.logs.index import MARK_BYTES, LineCount, LineMark
from anygpu.store.logs.page import LogLine
from anygpu.store.logs.search import LogPattern, search_after, search_before
from anygpu.store.logs.text import shown_text


class StoredLog:
    """A log whose bytes in `gap` were dropped. Reads return at most 100,000 bytes, and are counted."""

    def __init__(self, data: bytes, *, part: int = 30_011, gap: range = range(0)) -> None:
        self._data, self._gap = data, gap
        self.count, marks = LineCount(), []
        for start in range(0, len(data), part):
            marks += self.count.add(data[start : start + part], 0)
        self._marks = [mark for mark in marks if mark.offset not in gap]
        self.bytes_read = 0

    def read(self, offset: int, limit: int) -> tuple[int, bytes]:
        start = self._gap.stop if offset in self._gap else offset
        end = min(start + min(limit, 100_000), len(self._data))
        if start < self._gap.start:
            end = min(end, self._gap.start)
        self.bytes_read += max(0, end - start)
        return start, self._data[start:end]

    def marks(self, first: int, last: int) -> list[LineMark]:
        before = [LineMark(1, 0, 0), *(mark for mark in self._marks if mark.line <= first)][-1]
        later = [mark for mark in self._marks if mark.line > before.line]
        between = [mark for mark in later if mark.line <= last]
        return [before, *between, *later[len(between) : len(between) + 1]]

    def mark_before(self, offset: int) -> LineMark | None:
        return next((mark for mark in reversed(self._marks) if mark.offset <= offset), None)

    def mark_after(self, offset: int) -> LineMark | None:
        return next((mark for mark in self._marks if mark.offset >= offset), None)


def random_log(seed: int) -> bytes:
    chance = random.Random(seed)
    sizes = (0, 3, 60, 300, 9000, MARK_BYTES - 1, MARK_BYTES, 3 * MARK_BYTES)
    weights = (4, 30, 300, 30, 3, 1, 1, 2)
    lines = []
    for number in range(3000):
        size = chance.choices(sizes, weights)[0]
        bar = chance.random() < 0.02
        lines.append(b"\r%d%%" % number * (size // 5) if bar else b"%d " % number + b"x" * size)
    return b"\n".join(lines) + (b"\n" if seed % 2 else b"")


def expected_lines(data: bytes) -> list[str]:
    parts = data.split(b"\n")
    parts = parts[:-1] if parts[-1] == b"" else parts
    return [shown_text(part)[0] for part in parts]


def all_hits(log: StoredLog, pattern: LogPattern, *, backwards: bool) -> list[LogLine]:
    hits: list[LogLine] = []
    cursor: int | None = 10**9 if backwards else 0
    while cursor is not None:
        portion = (search_before if backwards else search_after)(log, pattern, cursor, 10**9)
        hits += portion.lines
        cursor = portion.next
    return hits
