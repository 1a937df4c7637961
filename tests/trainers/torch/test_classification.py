"""Scores of a classification are those counted by hand."""

import pytest
import torch

from anygpu.trainers.torch.classification import ClassificationScores


def test_scores_are_those_counted_by_hand() -> None:
    scores = ClassificationScores(("a", "b", "c"))
    scores.add(torch.eye(3)[[0, 0, 1, 1, 2]], torch.tensor([0, 1, 1, 1, 0]))
    found = scores.metrics()
    assert (found["accuracy"], found["f1/a"], found["f1/b"], found["f1/c"]) == pytest.approx(
        (0.6, 0.5, 0.8, 0)
    )
    assert "top5_accuracy" not in found


def test_top_five_is_counted_where_there_are_more_than_five_classes() -> None:
    scores = ClassificationScores(tuple("abcdefg"))
    logits = torch.arange(7.0).repeat(2, 1)
    scores.add(logits, torch.tensor([2, 1]))  # the third of seven from below is among the top five
    assert scores.metrics()["top5_accuracy"] == 0.5
