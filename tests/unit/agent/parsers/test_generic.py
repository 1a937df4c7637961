"""Lines that people write themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

LINES = [
    ("Epoch: 3/10 loss=0.21 acc: 0.9", [("loss", 3, 0.21), ("acc", 3, 0.9)]),
    ("Epoch 3/10 - loss: 0.5 - val_loss: 0.25", [("loss", 3, 0.5), ("val_loss", 3, 0.25)]),
    ("Epoch 3 of 10, loss=1e-3", [("loss", 3, 0.001)]),
    ("EPOCH 3 | Train Loss: 0.5 | LR: 1e-4", [("train_loss", 3, 0.5), ("lr", 3, 0.0001)]),
    ("epoch=3 step=100 loss=0.2", [("loss", 100, 0.2)]),
    ("step: 100, loss: 0.2, lr: 0.001", [("loss", 100, 0.2), ("lr", 100, 0.001)]),
    ("global_step=100 reward=-1.5", [("reward", 100, -1.5)]),
    ("Iteration 5, loss = 0.73624701", [("loss", 5, 0.73624701)]),
    ("Epoch [3/10], Step [100/600], Loss: 0.25", [("loss", 1300, 0.25)]),
    ("Train Epoch: 2 [640/60000 (1%)]\tLoss: 2.300039", [("loss", 60640, 2.300039)]),
    ("[2024-01-01 12:00:00] [INFO] [train.py:30] epoch 3 loss=0.2", [("loss", 3, 0.2)]),
    ("2024-01-01 12:00:00,123 INFO trainer: Epoch 3/10 loss=0.2", [("loss", 3, 0.2)]),
    ('{"epoch": 3, "loss": 0.25}', [("loss", 3, 0.25)]),
    ("epoch 3 loss: tensor(0.2500, grad_fn=<NllLossBackward0>)", [("loss", 3, 0.25)]),
    ("Epoch 3/10 acc: 93.2%", [("acc", 3, 93.2)]),
    ("Epoch 3/10 time: 12.5s loss: 0.2 eta: 0:03:10 pid=7", [("loss", 3, 0.2)]),
    (
        "Epoch 3/10 train loss: 0.2 acc: 0.9 | val loss: 0.3 acc: 0.8 lr: 0.1",
        [("train_loss", 3, 0.2), ("train_acc", 3, 0.9), ("val_loss", 3, 0.3), ("val_acc", 3, 0.8), ("lr", 3, 0.1)],
    ),
    ("train Loss: 0.5 Acc: 0.7", [("train_loss", 1, 0.5), ("train_acc", 1, 0.7)]),
    ("val_loss=0.3, val_acc=0.9", [("val_loss", 1, 0.3), ("val_acc", 1, 0.9)]),
    ("eta: 0:10:00  iter: 19  total_loss: 1.25  loss_cls: 0.5  time: 0.5  lr: 0.001  max_mem: 2000M",
     [("total_loss", 19, 1.25), ("loss_cls", 19, 0.5), ("lr", 19, 0.001)]),
    ("step 100: train loss 2.5, val loss 2.6", [("train_loss", 100, 2.5), ("val_loss", 100, 2.6)]),
    ("iter 10: loss 2.4, time 30.12ms, mfu 1.25%", [("loss", 10, 2.4), ("mfu", 10, 1.25)]),
    ("step    5/18865 | loss 10.9 (+nanz)| norm 15.3 (+nanz)| lr 1.4e-06 | 300.00 ms | 123 tok/s",
     [("loss", 5, 10.9), ("norm", 5, 15.3), ("lr", 5, 1.4e-06)]),
    ("step:10/1390 val_loss:10.8258 train_time:30ms step_avg:3.1ms", [("val_loss", 10, 10.8258)]),
    (" iteration 10/ 500 | consumed samples: 2560 | learning rate: 1.0E-04 | batch size: 256 | lm loss: 9.5E+00 |",
     [("learning_rate", 10, 0.0001), ("lm_loss", 10, 9.5)]),
    ("| epoch   1 |   200/ 2983 batches | lr 5.00 | ms/batch 10.1 | loss  7.63 | ppl  2059.98",
     [("lr", 200, 5.0), ("loss", 200, 7.63), ("ppl", 200, 2059.98)]),
    ("Epoch 1: loss 0.5, accuracy 0.25", [("loss", 1, 0.5), ("accuracy", 1, 0.25)]),
    ("[epoch 1, batch 2000] loss: 2.2", [("loss", 2000, 2.2)]),
    ("Epoch(train)  [2][ 50/100]  lr: 1.0e-02  eta: 0:00:10  data_time: 0.02  loss: 0.5",
     [("lr", 150, 0.01), ("loss", 150, 0.5)]),
]  # fmt: skip


@pytest.mark.parametrize(("line", "expected"), LINES)
def test_a_line_gives_its_points(
    line: str, expected: list[tuple[str, int, float]], points_of: Callable[..., Any]
) -> None:
    assert points_of(line + "\n") == expected


PROGRESS = [
    ("Epoch 3/10", {"fraction": 0.2, "epoch": 2, "epochs": 10}),
    ("===== Epoch 3/10 =====", {"fraction": 0.2, "epoch": 2, "epochs": 10}),
    ("Finished epoch 3/10", {"fraction": 0.3, "epoch": 3, "epochs": 10}),
    ("Epoch 3/10 loss=0.2", {"fraction": 0.3, "epoch": 3, "epochs": 10}),
    ("Epoch 0/10 loss=0.2", {"fraction": 0.1, "epoch": 1, "epochs": 10}),
    ("Epoch 0/24\nEpoch 24/24", {"fraction": 0.96, "epoch": 24, "epochs": 25}),
    ("Epoch 3/10 batch 50/100 loss=0.2", {"fraction": 0.25, "step": 250, "steps": 1000, "epoch": 2, "epochs": 10}),
    ("step 50/200: loss=0.5", {"fraction": 0.25, "step": 50, "steps": 200}),
]  # fmt: skip


@pytest.mark.parametrize(("output", "expected"), PROGRESS)
def test_a_line_gives_the_progress_of_the_run(
    output: str, expected: dict[str, object], progress_of: Callable[..., Any]
) -> None:
    assert progress_of(output + "\n") == expected


def test_a_header_without_values_applies_to_the_lines_below_it(points_of: Callable[..., Any]) -> None:
    output = (
        "Epoch 0/2\n----------\ntrain Loss: 0.5 Acc: 0.7\nEpoch 1/2\n----------\nval Loss: 0.4 Acc: 0.8\n"
    )
    assert points_of(output) == [
        ("train_loss", 0, 0.5),
        ("train_acc", 0, 0.7),
        ("val_loss", 1, 0.4),
        ("val_acc", 1, 0.8),
    ]


def test_points_without_a_step_are_counted(points_of: Callable[..., Any]) -> None:
    assert points_of("loss: 0.5\nloss: 0.4\n") == [("loss", 1, 0.5), ("loss", 2, 0.4)]
