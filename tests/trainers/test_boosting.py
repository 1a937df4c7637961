"""XGBoost and LightGBM: killed by SIGKILL in the middle, the resumed training ends with the same model."""

import json
from pathlib import Path
from typing import Any

import joblib
import pytest
from tests.unit.trainers.tabular.tables import penguins

from anygpu.testing.trainings import Training
from anygpu.trainers import get_trainer

ROUNDS = 12


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
    "sampling", [{}, {"subsample": 0.7, "colsample_bytree": 0.7}], ids=["all", "sampled"]
)
@pytest.mark.parametrize("model", ["xgboost", "lightgbm"])
def test_a_killed_boosting_ends_where_an_uninterrupted_one_ends(
    model: str, sampling: dict[str, Any], data: Path, tmp_path: Path
) -> None:
    settings = {
        "target": "species",
        "drop": ["price"],
        "epochs": ROUNDS,
        "n_jobs": 1,
        "checkpoint_every_s": 0,
    }
    bagging = {"subsample_freq": 1} if sampling and model == "lightgbm" else {}
    training = Training(trainer=model, dataset=data, settings={**settings, **sampling, **bagging})
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
    settings = {"target": "price", "drop": ["species"], "epochs": 60, "n_jobs": 1}
    result = get_trainer(model, dataset_path=data, output_dir=tmp_path, **settings).train()
    assert result.metrics["r2"] > 0.8
    assert result.exports[0].difference is not None
    assert result.exports[0].difference <= (result.exports[0].tolerance or 0)


@pytest.mark.parametrize("model", ["xgboost", "lightgbm"])
def test_classes_keep_their_names(model: str, data: Path, tmp_path: Path) -> None:
    settings = {"target": "species", "drop": ["price"], "epochs": 5, "n_jobs": 1}
    result = get_trainer(model, dataset_path=data, output_dir=tmp_path, **settings).train()
    assert joblib.load(result.best).class_names_ == ["adelie", "chinstrap", "gentoo"]
    assert result.exports[0].difference is not None
