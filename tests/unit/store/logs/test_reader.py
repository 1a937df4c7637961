"""Lines of large logs, against the obvious way to split a text into lines."""

import random

import pytest

from anygpu.store.logs.index import MARK_BYTES, LineCount, LineMark
from anygpu.store.logs.page import MAX_READ_BYTES, LogLine, read_page
from anygpu.store.logs.reader import MAX_LINE_BYTES
from anygpu.store.logs.search import LogPattern, search_after, search_before
from anygpu.store.logs.text import MAX_TEXT_BYTES, shown_text


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


@pytest.mark.parametrize("seed", range(6))
def test_pages_have_the_lines_of_the_log(seed: int) -> None:
    data = random_log(seed)
    log, expected = StoredLog(data), expected_lines(data)
    chance = random.Random(seed)
    for first in [1, 2, len(expected), *(chance.randrange(1, 3000) for _ in range(40))]:
        shown = read_page(log, first, 25)
        assert shown.total_lines == len(expected)
        assert shown.lines[0].number == first
        for line in shown.lines:
            assert line.text == expected[line.number - 1]
            assert line.offset == 0 or data[line.offset - 1 : line.offset] == b"\n"


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("backwards", [False, True])
def test_a_search_finds_every_matching_line_once(seed: int, backwards: bool) -> None:
    data = random_log(seed)
    hits = all_hits(StoredLog(data), LogPattern("77"), backwards=backwards)
    parts = data.split(b"\n")
    expected = [number for number, part in enumerate(parts, 1) if b"77" in part[part.rfind(b"\r") + 1 :]]
    numbers = [hit.number for hit in hits]
    assert sorted(numbers) == expected
    assert numbers == sorted(numbers, reverse=backwards)


@pytest.mark.parametrize("seed", range(4))
def test_lines_beside_dropped_bytes_keep_their_numbers(seed: int) -> None:
    data = random_log(seed)
    expected = expected_lines(data)
    chance = random.Random(seed)
    start = chance.randrange(len(data) // 2)
    log = StoredLog(data, gap=range(start, start + chance.randrange(1, len(data) // 3)))
    numbers: list[int] = []
    first = 1
    while (shown := read_page(log, first, 500)).lines:
        for line in shown.lines:
            numbers.append(line.number)
            if line.offset + MAX_LINE_BYTES < start or line.offset > start:
                assert line.text == expected[line.number - 1]
        first = shown.lines[-1].number + 1
    assert numbers == sorted(set(numbers))
    assert numbers[-1] == len(expected)
    dropped = data.count(b"\n", start, log._gap.stop)
    assert len(numbers) >= len(expected) - dropped - 1


def test_a_page_reads_only_the_neighbourhood_of_its_lines() -> None:
    log = StoredLog(b"".join(b"%06d some text of a usual length\n" % n for n in range(300_000)))
    for first in (1, 150_000, 299_900):
        log.bytes_read = 0
        assert len(read_page(log, first, 100).lines) == 100
        assert log.bytes_read < 4 * MARK_BYTES


def test_a_progress_bar_of_a_day_is_not_read_as_a_whole() -> None:
    bar = b"".join(b"\r%6d/500000 [00:00<00:00, 4.05it/s]" % n for n in range(500_000))
    log = StoredLog(b"start\n" + bar + b"\nend\n", part=1_000_003)
    log.bytes_read = 0
    texts = [line.text for line in read_page(log, 1, 3).lines]
    assert texts == ["start", "499999/500000 [00:00<00:00, 4.05it/s]", "end"]
    assert log.bytes_read < 5 * MAX_LINE_BYTES
    assert [line.number for line in all_hits(log, LogPattern("end"), backwards=True)] == [3]
    assert log.bytes_read < 100 * MAX_LINE_BYTES


def test_a_page_of_long_lines_stops_early_and_continues() -> None:
    log = StoredLog(b"".join(b"%03d" % n + b"y" * MAX_LINE_BYTES * 3 + b"\n" for n in range(200)))
    log.bytes_read = 0
    first = read_page(log, 1, 200)
    assert 1 <= len(first.lines) < 200
    assert log.bytes_read < 2 * MAX_READ_BYTES
    assert all(len(line.text) == MAX_TEXT_BYTES and line.rest for line in first.lines)
    following = read_page(log, first.lines[-1].number + 1, 1)
    assert following.lines[0].text.startswith(f"{len(first.lines):03d}y")


def test_no_expression_takes_long() -> None:
    log = StoredLog(b"a" * 1_000_000 + b"\n")
    for text in ("(a*)*b", "(a|aa)+$b", "(.*a){12}c", "(x+x+)+y"):
        assert search_after(log, LogPattern(text, is_regex=True), 0, 10).count == 0
