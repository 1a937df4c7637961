"""Pages of large logs, against the obvious way to split a text into lines."""

import random

import pytest
from tests.unit.store.logs.stored_log import StoredLog, expected_lines, random_log

from anygpu.store.logs.index import MARK_BYTES
from anygpu.store.logs.page import MAX_READ_BYTES, read_page
from anygpu.store.logs.reader import MAX_LINE_BYTES
from anygpu.store.logs.text import MAX_TEXT_BYTES


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


def test_a_page_reads_only_the_neighbourhood_of_its_lines() -> None:
    log = StoredLog(b"".join(b"%06d some text of a usual length\n" % n for n in range(300_000)))
    for first in (1, 150_000, 299_900):
        log.bytes_read = 0
        assert len(read_page(log, first, 100).lines) == 100
        assert log.bytes_read < 4 * MARK_BYTES


def test_a_page_of_long_lines_stops_early_and_continues() -> None:
    log = StoredLog(b"".join(b"%03d" % n + b"y" * MAX_LINE_BYTES * 3 + b"\n" for n in range(200)))
    log.bytes_read = 0
    first = read_page(log, 1, 200)
    assert 1 <= len(first.lines) < 200
    assert log.bytes_read < 2 * MAX_READ_BYTES
    assert all(len(line.text) == MAX_TEXT_BYTES and line.rest for line in first.lines)
    following = read_page(log, first.lines[-1].number + 1, 1)
    assert following.lines[0].text.startswith(f"{len(first.lines):03d}y")
