"""What a logger puts before a line never becomes a metric, and does not hide the metrics in the line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from anygpu.agent.parsers.prefixes import without_log_prefix

PREFIXES = [
    "INFO:root:",
    "INFO:trainer:",
    "WARNING:my.package.train:",
    "INFO ",
    "[INFO] ",
    "INFO - ",
    "2024-05-01 12:30:11,123 ",
    "2024-05-01 12:30:11,123 INFO ",
    "2024-05-01 12:30:11,123 - root - INFO - ",
    "2024-05-01 12:30:11,123 - trainer:261 - INFO - ",
    "2024-05-01 12:30:11.123 | INFO     | __main__:train:261 - ",
    "2024-05-01 12:30:11.123 | INFO     | __main__:<module>:12 - ",
    "[2024-05-01 12:30:11,123][train.py:88][INFO] ",
    "[2024-05-01 12:30:11] [INFO] [train.py:88] ",
    "[05/01 12:30:11 d2.utils.events]: ",
    "2024-05-01T12:30:11Z ",
    "12:30:11 ",
    "[12:30:11] INFO ",
    "I0501 12:30:11.123456 140123 train.py:30] ",
    "trainer:261 ",
    "trainer:261: ",
    "trainer:261 - ",
    "[train.py:88] ",
    "train.py:88: ",
    "(train.py:88) ",
    "src/model/train.py:88 ",
    "[rank0]: ",
    "[default3]:",
    "[1,0]<stdout>:",
    "[rank0]: 2024-05-01 12:30:11 INFO trainer:261 ",
]
BODIES = [
    ("Epoch: 3/10 loss=0.21 acc: 0.9", [("loss", 3, 0.21), ("acc", 3, 0.9)]),
    ("epoch 3 loss=0.2", [("loss", 3, 0.2)]),
    ("step: 100, loss: 0.2, lr: 0.001", [("loss", 100, 0.2), ("lr", 100, 0.001)]),
    ("step:10/1390 val_loss:10.8258", [("val_loss", 10, 10.8258)]),
    ("iter 10: loss 2.4, time 30.12ms", [("loss", 10, 2.4)]),
    ("loss: 0.5", [("loss", 1, 0.5)]),
    ("val_loss=0.3, val_acc=0.9", [("val_loss", 1, 0.3), ("val_acc", 1, 0.9)]),
    ("[12]\ttrain-rmse:0.1\teval-rmse:0.2", [("train-rmse", 12, 0.1), ("eval-rmse", 12, 0.2)]),
    ("5:\tlearn: 0.5\ttotal: 1s\tremaining: 1s", [("learn", 5, 0.5)]),
    ("Train: 0 [   4/100 (  5%)]  Loss: 6.9 (6.9)  LR: 1.0e-06", [("loss", 5, 6.9), ("lr", 5, 1e-06)]),
    ("the epoch begins at step one", []),
    ("loss of connection at 10:30", []),
    ("saved step_100/loss_0.25.png", []),
]


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize(("line", "expected"), BODIES)
def test_a_line_gives_the_same_points_with_and_without_a_prefix(
    prefix: str, line: str, expected: list[tuple[str, int, float]], points_of: Callable[..., Any]
) -> None:
    assert points_of(line + "\n") == expected
    assert points_of(f"{prefix}{line}\n") == expected


@pytest.mark.parametrize(
    "line",
    [
        "loss:3 acc:0.5",
        "epoch:3 loss:0.5",
        "step:261 loss:0.5",
        "Epoch 3/10 loss=0.2",
        "[3]\ttrain-rmse:0.1",
        "[1,  2000] loss: 2.201",
        "[epoch 1, batch 2000] loss: 2.2",
        "  val_loss: 0.5",
        "1563/1563 - 10s - loss: 0.2",
        "lr:3 loss:0.5",
    ],
)
def test_a_line_without_prefix_is_not_changed(line: str) -> None:
    assert without_log_prefix(line) == line
