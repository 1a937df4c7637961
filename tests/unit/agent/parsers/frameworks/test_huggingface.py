"""Output of Hugging Face's Trainer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

LINES = [
    ("{'loss': 0.5, 'grad_norm': 1.5, 'learning_rate': 5e-05, 'epoch': 1.0}",
     [("loss", 1, 0.5), ("grad_norm", 1, 1.5), ("learning_rate", 1, 5e-05)]),
    ("{'eval_loss': '0.25', 'epoch': '1'}", [("eval_loss", 1, 0.25)]),
]  # fmt: skip


@pytest.mark.parametrize(("line", "expected"), LINES)
def test_a_line_gives_its_points(
    line: str, expected: list[tuple[str, int, float]], points_of: Callable[..., Any]
) -> None:
    assert points_of(line + "\n") == expected
