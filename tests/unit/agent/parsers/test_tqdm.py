"""tqdm bars."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

LINES = [
    ("50%|█████     | 10/20 [00:01<00:01, 9.9it/s, loss=0.5, lr=1e-5]", [("loss", 10, 0.5), ("lr", 10, 1e-05)]),
    ("10it [00:01, 9.9it/s, loss=0.5]", [("loss", 10, 0.5)]),
    ("train:  50%|#####     | 10/20 [00:01<00:01,  1.20s/it, train loss=0.5]", [("train_loss", 10, 0.5)]),
    ("Epoch 3:  50%|█████     | 469/938 [00:05<00:05, 92.1it/s, v_num=0, train_loss=0.2]", [("train_loss", 3283, 0.2)]),
]  # fmt: skip


@pytest.mark.parametrize(("line", "expected"), LINES)
def test_a_line_gives_its_points(
    line: str, expected: list[tuple[str, int, float]], points_of: Callable[..., Any]
) -> None:
    assert points_of(line + "\n") == expected


PROGRESS = [
    ("Epoch 3:  50%|█████     | 469/938 [00:05<00:05, 92.1it/s, v_num=0]", {"step": 3283, "epoch": 3}),
    (" 25%|██▌       | 5/20 [00:01<00:03, 4.9it/s]", {"fraction": 0.25, "step": 5, "steps": 20}),
    ("Epochs:  30%|███       | 3/10 [00:01<00:03, 4.9it/s]", {"fraction": 0.3, "epoch": 3, "epochs": 10}),
]  # fmt: skip


@pytest.mark.parametrize(("output", "expected"), PROGRESS)
def test_a_line_gives_the_progress_of_the_run(
    output: str, expected: dict[str, object], progress_of: Callable[..., Any]
) -> None:
    assert progress_of(output + "\n") == expected


def test_a_validation_bar_gives_its_last_values_and_no_progress(readings_of: Callable[..., Any]) -> None:
    output = (
        "Validating:  50%|█████     | 5/10 [00:00<00:00, 10.0it/s, loss=0.9]\r"
        "Validating: 100%|██████████| 10/10 [00:00<00:00, 10.0it/s, loss=0.5]\n"
    )
    assert readings_of(output) == [("points", [("val_loss", 1, 1.0, 0.5)])]


def test_a_bar_and_a_message_on_the_same_line_are_both_read(points_of: Callable[..., Any]) -> None:
    bar = "50%|##| 5/10 [00:01<00:01, 9.9it/s, loss=0.5]"
    assert points_of(f"{bar}Epoch 3/10 val_loss=0.25\n") == [("loss", 5, 0.5), ("val_loss", 5, 0.25)]


def test_a_bar_cut_by_a_narrow_terminal_gives_no_half_number(points_of: Callable[..., Any]) -> None:
    assert points_of("50%|##| 5/10 [00:01<00:01, 9.9it/s, loss=0.12\n") == []
