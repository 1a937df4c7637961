"""XGBoost and LightGBM: killed by SIGKILL in the middle, the resumed training ends with the same model."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import joblib
import numpy
import pytest
from sklearn.datasets import make_classification, make_regression
from tests.unit.trainers.tabular.tables import penguins

from anygpu.testing.training_process import TrainingProcess
from anygpu.trainers import BadConfig, get_trainer
from anygpu.trainers.config import TrainingConfig
from anygpu.trainers.tabular import estimators
from anygpu.trainers.tabular.predictions import make_predictor
from anygpu.trainers.tabular.settings import MODELS

ROUNDS = 12
FEW = {"max_depth": 3, "n_jobs": 1}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return penguins(tmp_path_factory.mktemp("data") / "penguins.csv", rows=200)


def trees(path: Path) -> str:
    """The model in the framework's own words."""
    model = joblib.load(path)[-1]
    if hasattr(model, "booster_"):
        return str(model.booster_.model_to_string())
    return str(json.dumps(model.get_booster().get_dump(dump_format="json", with_stats=True)))


@pytest.mark.parametrize(
    ("model", "setting", "said"),
    [("xgboost", {"subsample": 7}, "subsample"), ("lightgbm", {"num_leaves": 1}, "num_leaves")],
)
def test_a_value_the_framework_refuses_is_named_without_a_traceback(
    model: str, setting: dict[str, Any], said: str, data: Path, tmp_path: Path
) -> None:
    trainer = get_trainer(
        model, dataset_path=data, output_dir=tmp_path, target="species", epochs=2, **setting
    )
    with pytest.raises(
        BadConfig, match=f"the model {model} refuses a setting; change it: .*{said}"
    ) as refused:
        trainer.train()
    assert " at /" not in str(refused.value)


@pytest.mark.parametrize(
    "sampling", [{}, {"subsample": 0.7, "colsample_bytree": 0.7}], ids=["all", "sampled"]
)
@pytest.mark.parametrize("model", ["xgboost", "lightgbm"])
def test_a_killed_boosting_ends_where_an_uninterrupted_one_ends(
    model: str, sampling: dict[str, Any], data: Path, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {
        "target": "species",
        "drop": ["price"],
        "epochs": ROUNDS,
        "n_jobs": 1,
        "checkpoint_every_s": 0,
    }
    bagging = {"subsample_freq": 1} if sampling and model == "lightgbm" else {}
    training = TrainingProcess(trainer=model, dataset=data, settings={**settings, **sampling, **bagging})
    whole = training.run(tmp_path / "whole")
    training.run_until(tmp_path / "killed", 5)
    resumed = training.run(tmp_path / "killed", resume=True)
    assert 1 < resumed["first_step"] <= 7
    assert trees(Path(resumed["last"])) == trees(Path(whole["last"]))
    assert resumed["history"] == whole["history"]
    assert whole["metrics"]["accuracy"] > 0.85


@pytest.mark.parametrize("model", ["xgboost", "lightgbm"])
def test_numbers_are_predicted_and_the_export_predicts_the_same(
    model: str, data: Path, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {"target": "price", "drop": ["species"], "epochs": 60, "n_jobs": 1}
    result = get_trainer(model, dataset_path=data, output_dir=tmp_path, **settings).train()
    assert result.metrics["r2"] > 0.8
    assert result.exports[0].difference is not None
    assert result.exports[0].difference <= (result.exports[0].tolerance or 0)


@pytest.mark.parametrize("model", ["xgboost", "lightgbm"])
def test_classes_keep_their_names(model: str, data: Path, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"target": "species", "drop": ["price"], "epochs": 5, "n_jobs": 1}
    result = get_trainer(model, dataset_path=data, output_dir=tmp_path, **settings).train()
    assert joblib.load(result.best).class_names_ == ["adelie", "chinstrap", "gentoo"]
    assert result.exports[0].difference is not None


def rows(classes: int) -> tuple[Any, Any]:
    if not classes:
        return make_regression(n_samples=300, n_features=6, random_state=3)  # type: ignore[no-any-return]
    return make_classification(  # type: ignore[no-any-return]
        n_samples=300, n_features=6, n_informative=5, n_redundant=0, n_classes=classes, random_state=3
    )


def grown(model: str, classes: int, inputs: Any, target: Any, *, epochs: int, rounds: int) -> Iterator[Any]:
    config = TrainingConfig(model=model, epochs=epochs, batch_size=8, options=FEW)
    estimator = estimators.new_estimator(config, "classification" if classes else "regression")
    learn = estimators.by_rounds(MODELS[model])
    for number in range(epochs):
        learn(estimator, inputs, target, number=number, rounds=rounds, seed=0)
        yield estimator


@pytest.mark.parametrize("classes", [0, 2, 3])
@pytest.mark.parametrize("model", ["xgboost", "lightgbm"])
def test_rounds_one_after_the_other_are_those_of_one_training_and_say_the_same(
    model: str, classes: int
) -> None:
    inputs, target = rows(classes)
    step_by_step, held = make_predictor(MODELS[model], inputs), None
    for number, estimator in enumerate(grown(model, classes, inputs, target, epochs=6, rounds=2), 1):
        at_once = estimator.predict_proba(inputs) if classes else estimator.predict(inputs)
        assert numpy.allclose(step_by_step(estimator), at_once, rtol=1e-4, atol=1e-6)
        if number == 4:
            held, then = estimators.hold_estimator(MODELS[model], estimator), at_once
    assert numpy.array_equal(make_predictor(MODELS[model], inputs)(estimator), step_by_step(estimator))
    assert held is not None
    best = held()
    assert numpy.array_equal(best.predict_proba(inputs) if classes else best.predict(inputs), then)
    (one,) = grown(model, classes, inputs, target, epochs=1, rounds=12)
    assert numpy.allclose(at_once, one.predict_proba(inputs) if classes else one.predict(inputs), rtol=1e-5)
