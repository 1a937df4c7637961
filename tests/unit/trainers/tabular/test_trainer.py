"""Every model of scikit-learn's learns a table, resumes to the same bits, and is exported whole."""

import json
from pathlib import Path
from typing import Any

import joblib
import onnxruntime
import pytest
from tests.unit.trainers.tabular.same import fingerprint
from tests.unit.trainers.tabular.tables import penguins
from tests.unit.trainers.test_contract import Killed, Killer

from anygpu.trainers import BadDataset, LocalContext, TrainingResult, get_trainer

CLASSIFIERS = ("random-forest", "extra-trees", "gradient-boosting", "hist-gradient-boosting")
CASES = [
    *((model, "species") for model in (*CLASSIFIERS, "logistic-regression", "sgd", "mlp")),
    *((model, "price") for model in ("random-forest", "hist-gradient-boosting", "ridge", "sgd", "mlp")),
]
GOOD = {"species": ("accuracy", 0.85), "price": ("r2", 0.5)}


def trained(data: Path, output: Path, context: LocalContext | None = None, **settings: Any) -> TrainingResult:
    other = "price" if settings["target"] == "species" else "species"
    given = {"epochs": 5, "batch_size": 32, "drop": [other], "checkpoint_every_s": 0, **settings}
    return get_trainer("tabular", dataset_path=data, output_dir=output, context=context, **given).train()


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return penguins(tmp_path_factory.mktemp("data") / "penguins.csv")


@pytest.mark.parametrize(("model", "target"), CASES)
def test_a_model_learns_and_killed_in_the_middle_ends_bit_for_bit_where_an_uninterrupted_one_ends(
    model: str, target: str, data: Path, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {"model": model, "target": target}
    if model == "mlp":
        settings |= {"hidden_layer_sizes": [16], "learning_rate": 0.02}
    whole = trained(data, tmp_path / "whole", **settings)
    name, bar = GOOD[target]
    assert whole.metrics[name] > bar
    assert whole.exports[0].difference is not None
    assert whole.exports[0].difference <= (whole.exports[0].tolerance or 0)
    output = tmp_path / "killed"
    calls = 2 if whole.epochs == 1 else 11
    with pytest.raises(Killed):
        trained(data, output, Killer(output, calls=calls), **settings)
    resumed = trained(data, output, LocalContext(output, resume=True, bar=False), **settings, export=())
    assert same(resumed) == same(whole)


def same(result: TrainingResult) -> tuple[Any, ...]:
    assert result.best is not None
    assert result.last is not None
    return fingerprint(result.best), fingerprint(result.last), result.history, result.samples_sha256


def test_the_saved_model_and_its_export_take_rows_as_they_were_in_the_table(
    data: Path, tmp_path: Path
) -> None:
    result = trained(data, tmp_path, model="logistic-regression", target="species")
    rows = [[39.5, 3100.0, "a", "m"], [48.0, 4800.0, "c", ""], [float("nan"), 4000.0, "never seen", "f"]]
    model = joblib.load(result.best)
    assert model.predict(rows[:2]).tolist() == ["adelie", "gentoo"]
    assert model.column_names_ == ["bill length", "mass", "island", "sex"]
    session = onnxruntime.InferenceSession(str(result.exports[0].path))
    assert [each.name for each in session.get_inputs()] == ["bill_length", "mass", "island", "sex"]
    assert json.loads(session.get_modelmeta().custom_metadata_map["classes"]) == [
        "adelie",
        "chinstrap",
        "gentoo",
    ]
    assert model.predict(rows).shape == (3,)


def test_the_task_is_told_from_the_target_and_said(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = trained(data, tmp_path, model="ridge", target="price", export=())
    assert "r2" in result.metrics
    assert "task: regression, since 'price' contains numbers" in capsys.readouterr().err


def test_rows_held_out_are_measured_apart(data: Path, tmp_path: Path) -> None:
    result = trained(data, tmp_path, model="ridge", target="price", test_fraction=0.2, export=())
    assert {"rmse", "mae", "r2", "test_rmse", "test_mae", "test_r2"} == set(result.metrics)


def test_training_ends_early_when_nothing_becomes_better(data: Path, tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "model": "gradient-boosting",
        "learning_rate": 5.0,
        "patience": 2,
        "epochs": 50,
        "export": (),
    }
    assert trained(data, tmp_path, target="species", **settings).epochs < 50


def test_rounds_are_what_an_epoch_adds(data: Path, tmp_path: Path) -> None:
    result = trained(data, tmp_path, model="random-forest", target="species", rounds=3, epochs=2, export=())
    assert len(joblib.load(result.last)[-1].estimators_) == 6


def test_another_table_is_no_continuation(data: Path, tmp_path: Path) -> None:
    trained(data, tmp_path / "out", model="sgd", target="species", epochs=1, export=())
    other = penguins(tmp_path / "other.csv", seed=2)
    context = LocalContext(tmp_path / "out", resume=True, bar=False)
    with pytest.raises(Exception, match="has changed since the checkpoint was saved"):
        trained(other, tmp_path / "out", context, model="sgd", target="species", epochs=2, export=())


def test_a_dataset_is_needed(tmp_path: Path) -> None:
    with pytest.raises(BadDataset, match="needs a dataset"):
        get_trainer("tabular", output_dir=tmp_path, target="x").train()
