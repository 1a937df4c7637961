"""Output of XGBoost, LightGBM and scikit-learn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

LINES = [
    ("[12]\ttrain-rmse:0.1\teval-rmse:0.2", [("train-rmse", 12, 0.1), ("eval-rmse", 12, 0.2)]),
    ("[12:30:11] [12]\ttrain-rmse:0.1", [("train-rmse", 12, 0.1)]),
    ("[3]\ttrain-rmse:0.1+0.01\ttest-rmse:0.2+0.02", [("train-rmse", 3, 0.1), ("test-rmse", 3, 0.2)]),
    ("[10]\tvalid_0's l2: 0.24\tvalid_0's auc: 0.76", [("valid_0-l2", 10, 0.24), ("valid_0-auc", 10, 0.76)]),
    ("[10]\tcv_agg's valid auc: 0.94 + 0.01", [("cv_agg-valid_auc", 10, 0.94)]),
    ("Iteration 3, inertia 62.75.", [("inertia", 3, 62.75)]),
]  # fmt: skip


@pytest.mark.parametrize(("line", "expected"), LINES)
def test_a_line_gives_its_points(
    line: str, expected: list[tuple[str, int, float]], points_of: Callable[..., Any]
) -> None:
    assert points_of(line + "\n") == expected
