"""Readings from captured output of real frameworks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

CAPTURED = Path(__file__).parent / "captured"

LAST_PROGRESS: dict[str, dict[str, object]] = {
    "keras": {"fraction": 1.0, "step": 240, "steps": 240, "epoch": 3, "epochs": 3},
    "keras_verbose_2": {"fraction": 1.0, "step": 240, "steps": 240, "epoch": 3, "epochs": 3},
    "lightgbm": {"step": 4},
    "lightning_rich": {"fraction": 1.0, "step": 12, "steps": 12, "epoch": 2, "epochs": 2},
    "lightning_rich_terminal": {"fraction": 1.0, "step": 12, "steps": 12, "epoch": 2, "epochs": 2},
    "lightning_tqdm": {"fraction": 1.0, "step": 12, "steps": 12, "epoch": 2, "epochs": 2},
    "pytorch_mnist": {"step": 1152, "epoch": 1},
    "scikit_learn": {"step": 18, "epoch": 3},
    "tqdm": {"fraction": 1.0, "step": 40, "steps": 40, "epoch": 2, "epochs": 2},
    "tqdm_nested": {"fraction": 1.0, "step": 30, "steps": 30, "epoch": 3, "epochs": 3},
    "tqdm_nested_terminal": {"fraction": 1.0, "step": 30, "steps": 30, "epoch": 3, "epochs": 3},
    "transformers": {"fraction": 1.0, "step": 24, "steps": 24, "epoch": 3},
    "transformers_no_bar": {"epoch": 3},
    "transformers_terminal": {"fraction": 1.0, "step": 24, "steps": 24, "epoch": 3},
    "ultralytics": {"fraction": 1.0, "epoch": 3, "epochs": 3},
    "ultralytics_terminal": {"fraction": 1.0, "epoch": 3, "epochs": 3},
    "xgboost": {"step": 2},
}


def test_every_captured_run_is_checked() -> None:
    assert {path.stem for path in CAPTURED.glob("*.out")} == set(LAST_PROGRESS)


@pytest.mark.parametrize("name", LAST_PROGRESS)
def test_a_captured_run_gives_exactly_its_points(name: str, points_of: Callable[..., Any]) -> None:
    told = [f"{metric} {step} {value!r}" for metric, step, value in points_of(_output(name))]
    assert told == (CAPTURED / f"{name}.points").read_text().splitlines()


@pytest.mark.parametrize("name", LAST_PROGRESS)
def test_a_captured_run_ends_with_its_progress(name: str, progress_of: Callable[..., Any]) -> None:
    assert progress_of(_output(name)) == LAST_PROGRESS[name]


@pytest.mark.parametrize("name", ["keras", "lightning_rich_terminal", "tqdm", "tqdm_nested", "ultralytics"])
def test_the_fraction_of_a_captured_run_never_goes_back(name: str) -> None:
    fractions = [told["fraction"] for told in _every_progress(_output(name)) if "fraction" in told]
    assert fractions == sorted(fractions)
    assert len(fractions) > 3


@pytest.mark.parametrize(("pipe", "terminal"), [("ultralytics", "ultralytics_terminal")])
def test_a_terminal_gives_the_same_points_as_a_pipe(
    pipe: str, terminal: str, points_of: Callable[..., Any]
) -> None:
    assert points_of(_output(pipe)) == points_of(_output(terminal))


def _output(name: str) -> bytes:
    return (CAPTURED / f"{name}.out").read_bytes()


def _every_progress(output: bytes) -> list[dict[str, Any]]:
    """Fed a byte a second, nothing is held back to keep the rate low."""
    from anygpu.agent.parsers.reader import OutputReader

    reader = OutputReader()
    told = [reader.feed(output[at : at + 1], float(at)) for at in range(len(output))]
    return [reading for readings in told for kind, reading in readings if kind == "progress"]
