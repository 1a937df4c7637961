"""Scripts that train without us: the tabular one is run, the others are compiled."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import joblib
import pytest
from tests.unit.trainers.tabular.tables import penguins

from anygpu.agent.parsers.reader import OutputReader
from anygpu.trainers import BadConfig, scripts
from anygpu.trainers.tabular.settings import MODELS


@pytest.mark.parametrize(
    ("settings", "name", "bar"),
    [
        (
            {"target": "species", "drop": "price", "model": "sgd", "epochs": 3, "batch_size": 16},
            "accuracy",
            0.8,
        ),
        ({"target": "price", "drop": "species", "model": "ridge"}, "r2", 0.8),
    ],
)
def test_the_tabular_script_runs_by_itself_and_prints_its_progress(
    settings: dict[str, Any], name: str, bar: float, tmp_path: Path
) -> None:
    data = penguins(tmp_path / "penguins.csv")
    (tmp_path / "train.py").write_text(scripts.script("tabular", settings, str(data)))
    command = [sys.executable, "-I", "train.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert {each["type"] for each in told} == {"progress"}
    assert told[-1]["data"]["epoch"] == told[-1]["data"]["total_epochs"] == len(told)
    assert told[-1]["data"]["metrics"][name] > bar
    reader = OutputReader()
    read = [*reader.feed(done.stdout.encode(), 1.0), *reader.close(2.0)]
    points = [point for kind, found in read if kind == "points" for point in found]
    assert (name, len(told), told[-1]["data"]["metrics"][name]) in [(p[0], p[1], p[3]) for p in points]
    assert [found for kind, found in read if kind == "progress"][-1]["fraction"] == 1.0
    predicted = joblib.load(tmp_path / "outputs" / "model.joblib").predict([[39.0, 3000.0, "a", "m"]])
    assert len(predicted) == 1


@pytest.mark.parametrize("model", MODELS)
def test_every_tabular_model_has_a_script_that_compiles(model: str) -> None:
    for task in ("classification", "regression"):
        if MODELS[model].place(task):
            text = scripts.script("tabular", {"target": "y", "model": model, "task": task})
            compile(text, "train.py", "exec")
            assert "anygpu" not in text


@pytest.mark.parametrize(
    ("trainer", "settings", "says"),
    [
        (
            "yolo",
            {"model": "yolov8s", "epochs": 7, "imgsz": 320},
            ["'yolov8s.yaml'", "'imgsz': 320", "'epochs': 7"],
        ),
        ("yolo", {"task": "segment", "weights": "mine.pt"}, ["'mine.pt'", "(segment)"]),
        (
            "torch-classifier",
            {"model": "resnet18", "epochs": 9, "optimizer": "sgd"},
            ["'resnet18'", "EPOCHS, ", "9, 16"],
        ),
    ],
)
def test_a_script_says_its_settings_and_does_without_anygpu(
    trainer: str, settings: dict[str, Any], says: list[str]
) -> None:
    text = scripts.script(trainer, settings, "data/set")
    compile(text, "train.py", "exec")
    assert all(each in text for each in says)
    assert '{"type": "progress", "data": data}' in text
    assert "import anygpu" not in text
    assert "from anygpu" not in text


def test_a_trainer_without_a_template_gets_a_few_lines_that_use_the_library() -> None:
    text = scripts.script("nanogpt", {"epochs": 2}, "text.txt")
    compile(text, "train.py", "exec")
    assert "'epochs': 2" in text
    assert "PrintingContext" in text


def test_what_a_script_cannot_do_is_refused() -> None:
    with pytest.raises(BadConfig, match="jitter: the script does not support this setting"):
        scripts.script("torch-classifier", {"jitter": 0.5})
    with pytest.raises(BadConfig, match="set classification or regression"):
        scripts.script("tabular", {"target": "y"}, "not-here.csv")
