"""Settings, datasets and requirements of every built-in trainer are told without its framework."""

import json
import subprocess
import sys
from typing import Any

import pytest

from anygpu.trainers import find
from anygpu.trainers.registry import BUILT_IN, requirements_for, steps_grow

HEAVY = {
    "torch",
    "torchvision",
    "transformers",
    "ultralytics",
    "rfdetr",
    "sklearn",
    "numpy",
    "PIL",
    "pandas",
    "onnx",
}
ASKING = """
import json, sys
from anygpu.trainers import find
from anygpu.trainers.registry import BUILT_IN
for name in BUILT_IN:
    find(name).parse_settings({"target": "y"} if name in ("tabular", "xgboost", "lightgbm") else {})
print(json.dumps(sorted(sys.modules)))
"""


def test_settings_are_checked_without_importing_a_framework() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ASKING], capture_output=True, text=True, timeout=60, check=True
    )
    assert HEAVY & set(json.loads(done.stdout)) == set()


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_trainer_says_what_to_install_and_under_which_licence(name: str) -> None:
    kind = find(name)
    assert kind.licence
    assert kind.needs
    assert kind.extra
    settings = {"target": "y"} if kind.name == "tabular" else {}
    assert requirements_for(name, settings), f"pyproject.toml has no extra {kind.extra!r}"


@pytest.mark.parametrize(
    ("name", "settings", "expected"),
    [
        ("tabular", {"target": "y"}, True),  # scikit-learn's boosting asks all trees before every round
        ("tabular", {"target": "y", "model": "random-forest"}, False),
        ("tabular", {"target": "y", "model": "mlp"}, False),
        ("xgboost", {"target": "y"}, False),
        ("lightgbm", {"target": "y", "colsample_bytree": 1.0}, False),
        ("lightgbm", {"target": "y", "colsample_bytree": 0.5}, True),
        ("nanogpt", {}, False),
        ("xgboost", {}, False),  # settings that are wrong
        ("somebody-elses", {}, False),
    ],
)
def test_a_training_whose_steps_take_longer_and_longer_says_so(
    name: str, settings: dict[str, Any], expected: bool
) -> None:
    assert steps_grow(name, settings) is expected
