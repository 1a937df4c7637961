"""The output of a job on a terminal and in a pipe."""

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from anygpu.cli.terminal.job_output import OutputFilter, UnchangedOutput

ATTACKS = [
    (b"\x1b[2J\x1b[Hgone", b"gone"),
    (b"\x1b]0;title\x07text", b"text"),
    (b"\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", b"link"),
    (b"\x1bP+q544e\x1b\\x", b"x"),
    (b"\x1b]52;c;cm0gLXJm\x07x", b"x"),
    (b"\x1b]never ends\nnext line", b"never ends\nnext line"),
    (b"\x1b\x1b[A[31m", b"[31m"),
    ("\x9b2J".encode(), b"\\x9b2J"),
    ("\u202egnp".encode(), b"\\u202egnp"),
    (b"\x1bc\x1b7\x1b(0x", b"x"),
    (b"\x0e\x0f", b"\\x0e\\x0f"),
    (b"ab\x08\x08cd\x07", b"abcd"),
]


def on_terminal(data: bytes, *, colours: bool = True) -> bytes:
    safe = OutputFilter(colours=colours, terminal=True)
    return safe.feed(data) + safe.close()


@pytest.mark.parametrize(("data", "shown"), ATTACKS)
def test_control_sequences_are_removed_or_visible(data: bytes, shown: bytes) -> None:
    assert on_terminal(data) == shown


def test_colours_stay_on_a_terminal_and_end_with_the_output() -> None:
    assert on_terminal(b"\x1b[1;31mred") == b"\x1b[1;31mred\x1b[0m"
    assert on_terminal(b"\x1b[1;31mred\x1b[0m", colours=False) == b"red"


def test_a_progress_bar_rewrites_its_line_and_erases_what_was_there() -> None:
    assert on_terminal(b" 10%\r 20%\r\n") == b" 10%\r\x1b[K 20%\n"
    assert on_terminal(b"rm -rf /\rls") == b"rm -rf /\r\x1b[Kls"
    assert on_terminal(b"100%\r") == b"100%", "the last line of a bar stays visible"


def test_in_a_pipe_only_sequences_are_removed() -> None:
    safe = OutputFilter(colours=False, terminal=False)
    data = b"\xff\x00 10%\r\x08\x07 \x1b[31mred\x1b[0m\x1b[2J \x9b1m\n"
    assert safe.feed(data) + safe.close() == b"\xff\x00 10%\r\x08\x07 red \\x9b1m\n"


def test_raw_output_is_not_changed() -> None:
    raw = UnchangedOutput()
    assert raw.feed(b"\x1b[2J\xff") + raw.close() == b"\x1b[2J\xff"


PARTS = st.sampled_from(
    [
        b"\x1b",
        b"[",
        b"]",
        b"31m",
        b"0;x\x07",
        b"\x1b\\",
        b"2J",
        b"\r",
        b"\n",
        b"text",
        b"\x9b",
        b"\xc2\x9b",
        b"\xe2\x80\xae",
        b"P",
    ]
)


@given(st.lists(PARTS, max_size=20).map(b"".join), st.lists(st.integers(0, 60), max_size=6), st.booleans())
@example(b"\x1b\x1b[31m[2J", [1, 3], True)
def test_no_sequence_but_colours_passes_however_the_output_is_split(
    data: bytes, places: list[int], terminal: bool
) -> None:
    marks = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    safe = OutputFilter(colours=True, terminal=terminal)
    shown = b"".join(safe.feed(data[start:end]) for start, end in pairwise(marks)) + safe.close()
    left = shown.replace(b"\x1b[31m", b"").replace(b"\x1b[0m", b"").replace(b"\x1b[m", b"")
    left = left.replace(b"\r\x1b[K", b"\r") if terminal else left
    assert b"\x1b" not in left
    assert b"\xc2\x9b" not in left
    assert b"\xe2\x80\xae" not in left
