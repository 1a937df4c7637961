"""Output of PyTorch's examples and tutorials."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

LINES = [
    ("[1,  2000] loss: 2.201", [("loss", 2000, 2.201)]),
    ("Test set: Average loss: 0.05, Accuracy: 983/1000 (98%)", [("test_loss", 1, 0.05), ("test_accuracy", 1, 0.983)]),
    ("Epoch: [1][  10/5005]\tTime  0.5 ( 0.6)\tLoss 6.9e+00 (7.0e+00)\tAcc@1   0.25 (  0.10)",
     [("loss", 10, 6.9), ("acc@1", 10, 0.25)]),
]  # fmt: skip


@pytest.mark.parametrize(("line", "expected"), LINES)
def test_a_line_gives_its_points(
    line: str, expected: list[tuple[str, int, float]], points_of: Callable[..., Any]
) -> None:
    assert points_of(line + "\n") == expected


def test_the_quickstart_of_pytorch_is_read(points_of: Callable[..., Any]) -> None:
    epoch = "Epoch {}\n----------\nloss: 2.25  [   64/60000]\nTest Error: \n Accuracy: {}%, Avg loss: 2.5 \n"
    assert points_of(epoch.format(1, 44.5) + epoch.format(2, 55.5)) == [
        ("loss", 64, 2.25), ("accuracy", 64, 44.5), ("avg_loss", 64, 2.5),
        ("loss", 60064, 2.25), ("accuracy", 60064, 55.5), ("avg_loss", 60064, 2.5),
    ]  # fmt: skip
