"""Progress bars that repeat, contain each other, or are very long."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def test_a_bar_that_starts_again_continues_the_step_count(points_of: Callable[..., Any]) -> None:
    one = "".join(f"\r {n}0%|##| {n}/10 [00:01<00:01, 9.9it/s, loss=0.{n}]" for n in (5, 9))
    assert [step for _, step, _ in points_of(one + "\n" + one + "\n")] == [5, 9, 15, 19]


def test_the_fraction_of_an_inner_bar_counts_within_the_outer_bar(progress_of: Callable[..., Any]) -> None:
    outer, inner = (
        "\r  0%|  | 1/4 [00:01<00:01, 9.9it/s]\n",
        "\r 50%|##| 5/10 [00:01<00:01, 9.9it/s, loss=0.5]\x1b[A",
    )
    assert progress_of(outer + inner) == {"fraction": 0.375, "step": 5}


def test_a_bar_of_a_million_steps_gives_a_thousand_points(points_of: Callable[..., Any]) -> None:
    output = "".join(
        f"\r{n // 10000}%|##| {n}/1000000 [00:01<00:01, 9.9it/s, loss={n}]" for n in range(0, 1000001, 100)
    )
    assert 900 <= len(points_of(output)) <= 1001


def test_the_summary_of_an_epoch_has_the_step_of_its_last_batch(points_of: Callable[..., Any]) -> None:
    output = "Epoch 1/2\n 100%|##| 10/10 [00:01<00:00, 9.9it/s, loss=0.5]\nEpoch 1/2 val_loss=0.3\n"
    assert points_of(output) == [("loss", 10, 0.5), ("val_loss", 10, 0.3)]
