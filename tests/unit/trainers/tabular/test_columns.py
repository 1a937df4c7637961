"""Settings and tables that cannot be trained on: every one is told what to change, before anything starts."""

from pathlib import Path
from typing import Any

import pytest

from anygpu.trainers import BadConfig, BadDataset, find, registry
from anygpu.trainers.tabular.columns import Columns
from anygpu.trainers.tabular.preprocessing import split_rows
from anygpu.trainers.tabular.trainer import Tabular, read


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "target: is missing; set it to the name of the column"),
        ({"target": "x", "model": "random-forrest"}, "did you mean 'random-forest'?"),
        ({"target": "x", "model": "ridge", "max_depth": 3}, "max_depth: model 'ridge' has no such setting"),
        (
            {"target": "x", "model": "ridge", "task": "classification"},
            "model 'ridge' does not support classification",
        ),
        (
            {"target": "x", "model": "extra-trees", "learning_rate": 0.1},
            "learning_rate: model 'extra-trees' does not have this setting",
        ),
        ({"target": "x", "image_size": 64}, "image_size: trainer 'tabular' does not use this setting"),
        ({"target": "x", "test_fraction": 0.9}, "test_fraction: has to be at least 0, and below 1"),
        ({"target": "x", "rounds": 0}, "rounds: 0 is not a whole number above 0"),
        ({"target": "x", "export": ["torchscript"]}, "export: 'torchscript' is not one of onnx"),
    ],
)
def test_a_wrong_setting_says_what_would_be_right(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(BadConfig) as caught:
        Tabular.parse_settings(settings)
    assert said in str(caught.value)


def table(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n")
    return path


def columns(path: Path, **settings: Any) -> Columns:
    return read(path, Tabular.parse_settings(settings))


TEN = [f"{number},{'ab'[number % 2]},{number % 2}" for number in range(10)]


@pytest.mark.parametrize(
    ("lines", "settings", "said"),
    [
        (["a,b,y", *TEN], {"target": "yy"}, "there is no column 'yy'; did you mean 'y'?"),
        (
            ["a,b,y", *TEN],
            {"target": "y", "drop": ["bb"]},
            "drop: there is no column 'bb'; did you mean 'b'?",
        ),
        (
            ["a,b,y", *TEN],
            {"target": "y", "features": "y"},
            "no column is left from which 'y' could be predicted",
        ),
        (["a,b,y", *TEN[:5]], {"target": "y"}, "only 5 rows have a value in the target column"),
        (["a,b,y", *TEN], {"target": "b", "task": "regression"}, "'a', which is not a number"),
        (["a,y", *["1,x"] * 10], {"target": "y"}, "the target column 'y' has only one value, 'x'"),
        (
            ["name,y", *(f"penguin {n},{n % 2}" for n in range(200))],
            {"target": "y"},
            "column 'name' has 200 different texts, too many for a category: drop it",
        ),
    ],
)
def test_a_table_that_cannot_be_trained_on_says_why(
    lines: list[str], settings: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(BadDataset) as caught:
        columns(table(tmp_path / "t.csv", *lines), **settings)
    assert said in str(caught.value)


def test_few_whole_numbers_are_classes_and_many_numbers_are_not(tmp_path: Path) -> None:
    few = table(tmp_path / "few.csv", "a,y", *(f"{n},{n % 12}" for n in range(40)))
    many = table(tmp_path / "many.csv", "a,y", *(f"{n},{n}" for n in range(40)))
    assert columns(few, target="y").classes == tuple(str(number) for number in range(12))
    assert columns(many, target="y").task == "regression"
    assert columns(many, target="y", task="classification").task == "classification"


def test_rows_without_a_target_are_left_out_and_gaps_elsewhere_are_kept(tmp_path: Path) -> None:
    path = table(tmp_path / "t.csv", "a,b,y", ",x,1", "2,,", "3,x,0", *TEN)
    found = columns(path, target="y")
    assert len(found.target) == 12
    assert found.features[0].values[0] != found.features[0].values[0]
    assert found.features[1].values[:2] == ("x", "x")


def test_every_class_is_trained_on_and_every_row_is_used_once() -> None:
    target = ["common"] * 90 + ["rare"] * 8 + ["once", "twice", "twice"]
    rows = split_rows(target, True, val_fraction=0.2, test_fraction=0.1, seed=3)
    parts = [rows.train.tolist(), rows.val.tolist(), rows.test.tolist()]
    assert sorted(row for part in parts for row in part) == list(range(len(target)))
    assert {target[row] for row in parts[0]} == {"common", "rare", "once", "twice"}
    assert {target[row] for row in parts[1]} == {"common", "rare"}


def test_xgboost_and_lightgbm_are_tabular_by_their_own_names() -> None:
    assert find("xgboost").parse_settings({"target": "y"}).model == "xgboost"
    assert find("LightGBM").parse_settings({"target": "y"}).model == "lightgbm"
    assert find("sklearn").parse_settings({"target": "y"}).model == "hist-gradient-boosting"
    assert find("sklearn/random-forest").parse_settings({"target": "y"}).model == "random-forest"


@pytest.mark.parametrize(
    ("name", "trainer", "model"),
    [
        ("resnet50", "torch-classifier", "resnet50"),
        ("yolov8n", "yolo", "yolov8n"),
        ("YOLO11m-seg.pt", "yolo", "YOLO11m-seg.pt"),
        ("yolo/yolo26s", "yolo", "yolo26s"),
        ("ridge", "tabular", "ridge"),
        ("vit_b_16", "torch-classifier", "vit_b_16"),
        ("my-own", "", ""),
        ("yolp", "", ""),
    ],
)
def test_a_model_named_instead_of_its_trainer_is_understood(name: str, trainer: str, model: str) -> None:
    assert registry.parse_name(name) == (trainer, model)
