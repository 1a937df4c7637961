"""Splitting bytes into lines: carriage returns, escape sequences, very long lines, invalid UTF-8."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from anygpu.agent.parsers.lines import LINE_LIMIT, LineSplitter


def test_carriage_returns_end_lines() -> None:
    assert LineSplitter().feed(b"loss 1\rloss 2\r\nloss 3\n") == ["loss 1", "loss 2", "loss 3"]


def test_a_line_is_returned_when_it_is_complete() -> None:
    lines = LineSplitter()
    assert lines.feed(b"loss ") == []
    assert lines.feed(b"1\nloss 2") == ["loss 1"]
    assert lines.close() == ["loss 2"]


def test_lines_without_metrics_are_skipped() -> None:
    assert LineSplitter().feed(b"hello\nloss 1\nworld\n") == ["loss 1"]


def test_colours_and_erase_sequences_are_removed() -> None:
    assert LineSplitter().feed(b"\x1b[2K\x1b[1;35mloss\x1b[0m 1\x1b[K\n") == ["loss 1"]


def test_window_titles_are_removed() -> None:
    assert LineSplitter().feed(b"\x1b]0;epoch 9/9\x07loss 1\n") == ["loss 1"]


def test_a_cursor_move_starts_another_line() -> None:
    assert LineSplitter().feed(b"loss 1\x1b[A\x1b[2Kloss 2\x1b[10;1Hloss 3\n") == [
        "loss 1",
        "loss 2",
        "loss 3",
    ]


def test_backspaces_are_removed() -> None:
    assert LineSplitter().feed(b"loss 1\b\b\b\b\b\b\rloss 2\n") == ["loss 1", "loss 2"]


def test_invalid_utf8_is_accepted(points_of: Callable[..., Any]) -> None:
    assert points_of(b"\xff\xfe\x00 Epoch 3/10 loss=0.5 \x80\xc3\n") == [("loss", 3, 0.5)]


def test_a_long_line_is_cut_and_the_next_is_read(points_of: Callable[..., Any]) -> None:
    endless = b"Epoch 1/9 loss=0.5 " + b"x" * LINE_LIMIT * 3 + b" val_loss=0.1\n"
    assert points_of(endless + b"Epoch 2/9 loss=0.4\n") == [("loss", 1, 0.5), ("loss", 2, 0.4)]


@pytest.mark.parametrize("piece", [1000, LINE_LIMIT - 1, LINE_LIMIT, LINE_LIMIT + 1, 10 * LINE_LIMIT])
def test_a_line_without_end_is_kept_only_up_to_its_limit(piece: int) -> None:
    lines = LineSplitter()
    for _ in range(50):
        lines.feed(b"loss " * (piece // 5))
    (text,) = lines.close()
    assert LINE_LIMIT - 5 <= len(text) <= LINE_LIMIT
