"""A search finds every matching line once, and no expression takes long."""

import pytest
from tests.unit.store.logs.stored_log import StoredLog, all_hits, random_log

from anygpu.store.logs.search import LogPattern, search_after


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


def test_no_expression_takes_long() -> None:
    log = StoredLog(b"a" * 1_000_000 + b"\n")
    for text in ("(a*)*b", "(a|aa)+$b", "(.*a){12}c", "(x+x+)+y"):
        assert search_after(log, LogPattern(text, is_regex=True), 0, 10).count == 0
