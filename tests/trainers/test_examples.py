"""The examples that need a framework run as they are, and learn what they say."""

from pathlib import Path

import pytest
from tests.unit.trainers import examples


def test_digits_are_read(tmp_path: Path) -> None:
    result = examples.trained("digits", examples.copied("digits", tmp_path), epochs=3)
    assert result.metrics["accuracy"] > 0.9
    assert {export.format for export in result.exports} >= {"onnx"}


def test_helmets_are_found(tmp_path: Path) -> None:
    result = examples.trained("helmets", examples.copied("helmets", tmp_path), epochs=12)
    assert result.metrics["mAP50"] > 0.5


def test_a_small_gpt_learns_the_sonnets(tmp_path: Path) -> None:
    result = examples.trained("nanogpt", examples.copied("nanogpt", tmp_path), epochs=10)
    assert result.metrics["val_loss"] < 2.7
    assert result.history[-1]["val_loss"] < result.history[0]["val_loss"] - 0.3


@pytest.mark.parametrize("workers", [0, 2])
def test_a_plugin_gets_torchs_loaders_and_learns_the_same_with_any_number_of_workers(
    tmp_path: Path, workers: int
) -> None:
    result = examples.trained("plugin", examples.copied("plugin", tmp_path), workers=workers, epochs=6)
    assert result.metrics["accuracy"] > 0.9
    assert result.history[-1]["loss"] == pytest.approx(0.2, abs=0.15)
