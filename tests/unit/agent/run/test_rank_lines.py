"""Lines of one rank are selected from the output of a machine that runs several."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anygpu.agent.assignment import RankLayout
from anygpu.agent.run.rank_lines import RankSelection, first_rank_of

OUTPUT = (
    b"step=1 loss=0.5\n[rank 5] step=1 loss=9\n\n[rank 4] own\n[rank 6] \n[rank 56] far\r\n"
    b"[rank 5] [rank 4]\r10%\r20%\n[rank x] no\n[ra\n[rank 7\xff] \n\xff\xfe\n[rank 7] last\nend [rank 5] "
)
FIRST = (
    b"step=1 loss=0.5\n\n[rank 4] own\n[rank 56] far\r\n"
    b"[rank x] no\n[ra\n[rank 7\xff] \n\xff\xfe\nend [rank 5] "
)


def select(rank: int, *parts: bytes) -> bytes:
    selection = RankSelection(rank, 4, 4)
    return b"".join(map(selection.feed, parts)) + selection.close()


@pytest.mark.parametrize(
    ("rank", "lines"),
    [
        (4, FIRST),
        (5, b"[rank 5] step=1 loss=9\n[rank 5] [rank 4]\r10%\r20%\n"),
        (6, b"[rank 6] \n"),
        (7, b"[rank 7] last\n"),
    ],
)
def test_each_line_belongs_to_one_rank_of_the_machine(rank: int, lines: bytes) -> None:
    assert select(rank, OUTPUT) == lines


@given(st.lists(st.integers(0, len(OUTPUT)), max_size=9), st.sampled_from([4, 5, 7]))
def test_the_result_does_not_depend_on_how_the_output_is_split(places: list[int], rank: int) -> None:
    marks = [0, *sorted(places), len(OUTPUT)]
    parts = [OUTPUT[start:end] for start, end in pairwise(marks)]
    assert select(rank, *parts) == select(rank, OUTPUT)


@pytest.mark.parametrize("rest", [b"[", b"[rank ", b"[rank 5", b"[rank 5]", b"50%|##"])
def test_a_line_that_has_not_ended_is_of_the_first_rank(rest: bytes) -> None:
    assert select(4, b"a\n", rest) == b"a\n" + rest
    assert select(5, b"a\n", rest) == b""


def test_an_incomplete_line_of_the_first_rank_is_passed_on_at_once() -> None:
    selection = RankSelection(0, 0, 2)
    assert [selection.feed(part) for part in (b"\r 10%", b"\r 20%", b"\n[rank 1] x", b"y\nz")] == [
        b"\r 10%",
        b"\r 20%",
        b"\n",
        b"z",
    ]


def test_whole_lines_are_selected_for_a_search() -> None:
    found = [line for line in (b"[rank 1] a", b"b", b"[rank 2] c") if RankSelection(1, 0, 2).selects(line)]
    assert found == [b"[rank 1] a"]
    assert RankSelection(0, 0, 2).selects(b"[rank 2] c"), "the machine has no rank 2"


def test_only_the_output_of_torchrun_with_several_processes_is_of_several_ranks() -> None:
    layout = {"node": 1, "nodes": 2, "launcher": "torchrun", "processes_per_node": 4}
    first = first_rank_of(RankLayout(layout))
    assert first is not None
    assert first.feed(b"[rank 5] x\n[rank 1] y\n") == b"[rank 1] y\n"
    assert first_rank_of(RankLayout({**layout, "launcher": "none"})) is None
    assert first_rank_of(RankLayout({**layout, "processes_per_node": 1})) is None
    assert first_rank_of(RankLayout({})) is None
