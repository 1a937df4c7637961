"""The index counts lines as bytes arrive, and marks where some of them start."""

import random
from itertools import pairwise

from anygpu.store.logs.index import MARK_BYTES, MARK_MS, LineCount, LineMark, total_lines


def added(*parts: bytes, at_ms: int = 0) -> tuple[LineCount, list[LineMark]]:
    count = LineCount()
    return count, [mark for part in parts for mark in count.add(part, at_ms)]


def test_an_unfinished_last_line_counts_as_a_line() -> None:
    count, _ = added(b"one\ntwo\nthr")
    assert (count.lines, count.line_start, count.size, total_lines(count)) == (2, 8, 11, 3)
    count.add(b"ee\n", 0)
    assert (count.lines, count.line_start, total_lines(count)) == (3, 14, 3)


def test_every_mark_is_the_start_of_its_line_however_the_bytes_are_split() -> None:
    chance = random.Random(3)
    data = b"".join(b"%d\n" % number * chance.randrange(400) for number in range(3000))
    starts = [0, *(place + 1 for place, byte in enumerate(data) if byte == 10)]
    for part in (7_001, MARK_BYTES, len(data)):
        count, marks = added(*(data[at : at + part] for at in range(0, len(data), part)))
        assert count.lines == data.count(b"\n")
        assert len(marks) > len(data) // MARK_BYTES // 2
        assert all(starts[mark.line - 1] == mark.offset for mark in marks)


def test_marks_are_at_most_64_kib_apart_where_lines_are_short() -> None:
    _, marks = added(b"short line\n" * 50_000)
    offsets = [0, *(mark.offset for mark in marks)]
    assert all(later - earlier <= MARK_BYTES + 11 for earlier, later in pairwise(offsets))


def test_output_after_a_pause_gets_a_mark_with_its_time() -> None:
    count, first = added(b"start\n", at_ms=5)
    assert first == []
    assert count.add(b"more\n", MARK_MS + 5) == [LineMark(2, 6, MARK_MS + 5)]
    assert count.add(b"at once\n", MARK_MS + 6) == []


def test_a_mark_is_never_inside_a_line() -> None:
    count, _ = added(b"unfinished")
    assert count.add(b" still", 3 * MARK_MS) == []
    assert count.add(b" end\nnext", 6 * MARK_MS) == [LineMark(2, 21, 6 * MARK_MS)]
