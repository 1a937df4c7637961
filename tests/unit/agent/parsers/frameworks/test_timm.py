"""Output of timm's train.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SCHEDULED = "Scheduled epochs: 300. LR stepped per epoch.\n"
TRAINED = (
    "Train: 0 [   0/1251 (  0%)]  Loss: 6.943 (6.94)  Time: 9.437s,   27.13/s  (9.437s,   27.13/s)  "
    "LR: 1.000e-06  Data: 1.542 (1.542)\n"
    "Train: 0 [1250/1251 (100%)]  Loss: 6.871 (6.91)  Time: 0.298s,  859.06/s  (0.321s,  797.51/s)  "
    "LR: 1.000e-06  Data: 0.012 (0.019)\n"
)
TESTED = (
    "Test: [   0/48]  Time: 3.127 (3.127)  Loss:  6.7930 (6.7930)  Acc@1:  1.3672 ( 1.3672)  "
    "Acc@5:  4.8828 ( 4.8828)\n"
    "Test: [  48/48]  Time: 0.137 (0.298)  Loss:  6.8125 (6.8203)  Acc@1:  0.9434 ( 0.6780)  "
    "Acc@5:  3.0660 ( 2.5340)\n"
    "Test (EMA): [  48/48]  Time: 0.137 (0.298)  Loss:  6.8125 (6.5000)  Acc@1:  0.9434 ( 1.5000)\n"
)
ENDED = "Current checkpoints:\n ('./output/train/checkpoint-0.pth.tar', 0.678)\n*** Best metric: 0.678 (epoch 0)\n"


def test_training_and_validation_lines_give_their_metrics(points_of: Callable[..., Any]) -> None:
    assert points_of(SCHEDULED + TRAINED + TESTED + ENDED) == [
        ("loss", 1, 6.943),
        ("lr", 1, 1e-06),
        ("loss", 1251, 6.871),
        ("lr", 1251, 1e-06),
        ("val_loss", 1251, 6.8203),
        ("val_acc@1", 1251, 0.678),
        ("val_acc@5", 1251, 2.534),
        ("val_ema_loss", 1251, 6.5),
        ("val_ema_acc@1", 1251, 1.5),
    ]


def test_progress_counts_epochs_from_the_schedule(progress_of: Callable[..., Any]) -> None:
    told = progress_of(SCHEDULED + TRAINED + TESTED + ENDED)
    assert told == {"fraction": 0.003333, "step": 1251, "steps": 375300, "epoch": 1, "epochs": 300}


def test_a_total_in_the_line_is_read(progress_of: Callable[..., Any], points_of: Callable[..., Any]) -> None:
    line = (
        "2023-01-05 16:34:37,748   INFO  Train:    1/3 ( 33%) [  49/100 ( 49%)]  Loss: 516.7 (517.)  "
        "LR: 1.000e-04  Time cost: 00:04/21:46 [00:04/1:05:18]  Acc_iter 1\n"
    )
    assert progress_of(line) == {"fraction": 0.166667, "step": 50, "steps": 300, "epoch": 0, "epochs": 3}
    assert points_of(line) == [("loss", 50, 516.7), ("lr", 50, 0.0001)]
