"""Output of Lightning with its rich bar."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

BAR = "Epoch {} {} ━━━━━━━━━━━━━━━━━━━━ {}/8 0:00:01 • 0:00:00 9.12it/s v_num: 0.000 train_loss: {}\n"


def test_the_rich_bar_counts_epochs_from_zero(
    points_of: Callable[..., Any], progress_of: Callable[..., Any]
) -> None:
    output = BAR.format("0/1", "", 8, 0.5) + BAR.format("1/1", "", 4, 0.25)
    assert points_of(output) == [("train_loss", 8, 0.5), ("train_loss", 12, 0.25)]
    assert progress_of(output) == {"fraction": 0.75, "step": 12, "steps": 16, "epoch": 1, "epochs": 2}


def test_the_table_of_test_results_is_read(points_of: Callable[..., Any]) -> None:
    output = "┃  Test metric  ┃  DataLoader 0  ┃\n│   test_loss   │     0.086      │\n"
    assert points_of(output) == [("test_loss", 1, 0.086)]


def test_the_end_of_fit_completes_the_epochs(progress_of: Callable[..., Any]) -> None:
    line = "`Trainer.fit` stopped: `max_epochs=3` reached.\n"
    assert progress_of(line) == {"fraction": 1.0, "epoch": 3, "epochs": 3}
