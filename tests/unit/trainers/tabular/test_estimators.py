"""Of a model that grows only what is new is asked, and the best of it is kept as it was."""

from pathlib import Path
from typing import Any

import joblib
import numpy
import pytest
from sklearn.datasets import make_classification, make_regression
from tests.unit.trainers.tabular.tables import penguins

from anygpu.trainers import get_trainer
from anygpu.trainers.config import TrainingConfig
from anygpu.trainers.tabular import estimators
from anygpu.trainers.tabular.predictions import make_predictor
from anygpu.trainers.tabular.settings import MODELS

FORESTS = ("random-forest", "extra-trees")
GROWING = (*FORESTS, "gradient-boosting", "hist-gradient-boosting")


def grown(model: str, task: str) -> tuple[Any, Any, Any]:
    """An estimator, and rows with their target to learn from."""
    config = TrainingConfig(model=model, epochs=9, batch_size=8, options={"max_depth": 3})
    make = make_classification if task == "classification" else make_regression
    return estimators.new_estimator(config, task), *make(n_samples=120, n_features=6, random_state=3)


@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize("model", FORESTS)
def test_a_forest_asked_tree_by_tree_says_what_it_says_asked_at_once(model: str, task: str) -> None:
    forest, inputs, target = grown(model, task)
    learn, step_by_step = estimators.by_rounds(MODELS[model]), make_predictor(MODELS[model], inputs)
    for number in range(5):
        learn(forest, inputs, target, number=number, rounds=2, seed=0)
        at_once = forest.predict_proba(inputs) if task == "classification" else forest.predict(inputs)
        assert numpy.allclose(step_by_step(forest), at_once, rtol=1e-12)
    assert numpy.array_equal(make_predictor(MODELS[model], inputs)(forest), step_by_step(forest))


@pytest.mark.parametrize("model", GROWING)
def test_what_was_held_is_as_it_was_however_the_model_grows(model: str) -> None:
    estimator, inputs, target = grown(model, "regression")
    learn = estimators.by_rounds(MODELS[model])
    learn(estimator, inputs, target, number=0, rounds=3, seed=0)
    before, held = estimator.predict(inputs), estimators.hold_estimator(MODELS[model], estimator)
    learn(estimator, inputs, target, number=1, rounds=3, seed=0)
    assert held is not None
    assert numpy.array_equal(held().predict(inputs), before)
    assert not numpy.array_equal(estimator.predict(inputs), before)


def test_what_does_not_grow_is_written_at_once() -> None:
    assert estimators.hold_estimator(MODELS["ridge"], object()) is None


def test_the_best_model_has_the_trees_of_its_epoch(tmp_path: Path) -> None:
    data = penguins(tmp_path / "penguins.csv")
    settings: dict[str, Any] = {
        "target": "species",
        "drop": ["price"],
        "learning_rate": 2.0,
        "epochs": 12,
        "export": (),
    }
    result = get_trainer(
        "tabular", dataset_path=data, output_dir=tmp_path, model="gradient-boosting", **settings
    ).train()
    losses = [epoch["log_loss"] for epoch in result.history]
    assert len(joblib.load(result.best)[-1].estimators_) == losses.index(min(losses)) + 1 < 12
    assert len(joblib.load(result.last)[-1].estimators_) == 12
