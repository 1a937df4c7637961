"""Lines are read in parts: beside dropped bytes, and without the whole of a very long line."""

import random

import pytest
from tests.unit.store.logs.stored_log import StoredLog, all_hits, expected_lines, random_log

from anygpu.store.logs.page import read_page
from anygpu.store.logs.reader import MAX_LINE_BYTES
from anygpu.store.logs.search import LogPattern


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


def test_a_progress_bar_of_a_day_is_not_read_as_a_whole() -> None:
    bar = b"".join(b"\r%6d/500000 [00:00<00:00, 4.05it/s]" % n for n in range(500_000))
    log = StoredLog(b"start\n" + bar + b"\nend\n", part=1_000_003)
    log.bytes_read = 0
    texts = [line.text for line in read_page(log, 1, 3).lines]
    assert texts == ["start", "499999/500000 [00:00<00:00, 4.05it/s]", "end"]
    assert log.bytes_read < 5 * MAX_LINE_BYTES
    assert [line.number for line in all_hits(log, LogPattern("end"), backwards=True)] == [3]
    assert log.bytes_read < 100 * MAX_LINE_BYTES
