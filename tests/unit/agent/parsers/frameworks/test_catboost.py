"""Output of CatBoost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

LINES = [
    ("0:\tlearn: 0.6705108\ttotal: 54.7ms\tremaining: 54.7ms", [("learn", 0, 0.6705108)], 0.5),
    (
        "18000:\tlearn: 0.7272085\ttest: 0.6091775\tbest: 0.6177883 (13556)\ttotal: 14m\tremaining: 2m 20s",
        [("learn", 18000, 0.7272085), ("test", 18000, 0.6091775), ("best", 18000, 0.6177883)],
        0.857143,
    ),
    (
        "2999:\ttest: 0.8866575\tbest: 0.8866630 (2977)\ttotal: 1h 1m 10s\tremaining: 0us",
        [("test", 2999, 0.8866575), ("best", 2999, 0.886663)],
        1.0,
    ),
    (
        "10:\tlearn: 0.5\ttest: 0.6\ttest1: 0.7\tbest: 0.6 (10)\ttotal: 10s\tremaining: 30s",
        [("learn", 10, 0.5), ("test", 10, 0.6), ("test1", 10, 0.7), ("best", 10, 0.6)],
        0.25,
    ),
]


@pytest.mark.parametrize(("line", "expected", "fraction"), LINES)
def test_an_iteration_gives_its_scores_and_the_fraction(
    line: str,
    expected: list[tuple[str, int, float]],
    fraction: float,
    points_of: Callable[..., Any],
    progress_of: Callable[..., Any],
) -> None:
    assert points_of(line + "\n") == expected
    assert progress_of(line + "\n") == {"fraction": fraction, "step": expected[0][1]}


@pytest.mark.parametrize(
    "line",
    [
        "Learning rate set to 0.082322",
        "bestTest = 0.622656999",
        "bestIteration = 20754",
        "Shrink model to first 20755 iterations.",
        "3 files copied, remaining: 4",
        "12: copying total: 30s remaining: 5s",
    ],
)
def test_other_lines_give_nothing(line: str, points_of: Callable[..., Any]) -> None:
    assert points_of(line + "\n") == []
