"""Settings, datasets and requirements of every built-in trainer are known without its framework."""

import json
import subprocess
import sys
from typing import Any

import pytest

from anygpu.plan.hardware.models import find_model
from anygpu.trainers import find, registry
from anygpu.trainers.contract import PlannerHints
from anygpu.trainers.registry import BUILT_IN, planner_hints, requirements_for, steps_grow
from anygpu.trainers.tabular.settings import MODELS

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
from anygpu.trainers.registry import BUILT_IN, planner_hints
for name in BUILT_IN:
    find(name).parse_settings({"target": "y"} if name in ("tabular", "xgboost", "lightgbm") else {})
    planner_hints(name)
print(json.dumps(sorted(sys.modules)))
"""


def test_settings_are_checked_and_hints_read_without_importing_a_framework() -> None:
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


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_trainer_declares_its_planner_hints(name: str) -> None:
    kind, hints = find(name), planner_hints(name)
    assert hints is kind.planner_hints
    assert hints.framework, f"{kind.__name__} declares no planner_hints"
    assert ("torch" in hints.requirements) == ("torch" in kind.needs) == hints.needs_gpu
    if hints.default_model:
        assert hints.default_model == kind.accepts.defaults.get("model", hints.default_model)
        assert hints.default_model in hints.parameters or find_model(hints.default_model)


def test_a_trainer_that_is_not_built_in_gets_the_default_hints() -> None:
    assert planner_hints("./mine.py:Mine") == PlannerHints()


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


@pytest.mark.parametrize("name", registry.BUILT_IN)
def test_every_module_of_a_trainer_is_looked_for_before_a_job_starts(name: str) -> None:
    models = MODELS if name in ("tabular", "xgboost", "lightgbm") else {"": None}
    for model in models:
        settings = {"target": "y", "model": model, "export": ["onnx"]} if model else {}
        kind = registry.find(name)
        modules = kind.modules(kind.parse_settings(settings))
        assert set(modules) <= set(registry.FRAMEWORK_MODULES)
        assert all(modules.values())
    assert registry.dataset_format(name)


def test_missing_modules_are_found_without_importing_anything() -> None:
    loaded = set(sys.modules)
    missing = registry.missing_modules()
    assert "sklearn" not in missing
    assert "ultralytics" in missing
    assert set(sys.modules) == loaded
