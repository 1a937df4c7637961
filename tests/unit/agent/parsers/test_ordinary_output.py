"""Ordinary output never becomes a metric."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ORDINARY = (Path(__file__).parent / "ordinary_output.txt").read_text().splitlines()


@pytest.mark.parametrize("line", ORDINARY)
def test_an_ordinary_line_gives_neither_metric_nor_progress(
    line: str, readings_of: Callable[..., Any]
) -> None:
    assert readings_of(line + "\n") == []


def test_ordinary_lines_together_give_nothing(readings_of: Callable[..., Any]) -> None:
    assert readings_of("\n".join(ORDINARY)) == []


def test_ordinary_lines_between_training_lines_change_nothing(readings_of: Callable[..., Any]) -> None:
    training = [f"Epoch {n}/3 loss={1 / n}" for n in (1, 2, 3)]
    mixed = "\n".join(line for block in training for line in [block, *ORDINARY])
    assert readings_of(mixed) == readings_of("\n".join(training))
