"""Which frameworks a script trains with, and which of its calls count."""

import pytest

from anygpu.plan.analyse.code.source import read_source
from anygpu.plan.analyse.code.syntax import gather_facts
from anygpu.plan.analyse.code.training_code import count_finding, reachable_functions, unreachable_calls
from anygpu.plan.analyse.code.values import Value
from anygpu.plan.analyse.script import analyse


def frameworks(text: str, **files: str) -> list[str]:
    return [finding.value for finding in analyse(text, files=files).frameworks]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("import torch", ["pytorch"]),
        ("from tensorflow.keras import layers", ["keras", "tensorflow"]),
        ("import xgboost as xgb", ["xgboost"]),
        ("from sklearn.svm import SVC", ["scikit-learn"]),
        ("import torch\nfrom sklearn.metrics import f1_score", ["pytorch"]),
        ("import json", []),
    ],
)
def test_the_frameworks_are_those_that_train(text: str, names: list[str]) -> None:
    assert frameworks(text + "\n") == names


def test_a_function_of_another_module_that_the_script_never_calls_is_unreachable() -> None:
    helper = "def unused():\n    save(1)\ndef used():\n    inner()\ndef inner():\n    load(2)\n"
    script = "from helper import used\nused()\n"
    facts = gather_facts([read_source("train.py", script), read_source("helper.py", helper)])
    assert [call.short_name for call in unreachable_calls(facts)] == ["save"]
    assert reachable_functions(facts) >= {("helper.py", "used"), ("helper.py", "inner")}


def test_training_calls_of_a_framework_are_recognised() -> None:
    lightning = analyse("import lightning as L\nL.Trainer(max_epochs=4).fit(model)\n").epochs
    yolo = analyse("from ultralytics import YOLO\nYOLO('yolo11n.pt').train(epochs=6)\n").epochs
    assert lightning is not None
    assert yolo is not None
    assert (lightning.value, yolo.value) == (4, 6)


@pytest.mark.parametrize(
    ("value", "count"),
    [(8, 8), (8.0, 8), ("8", 8), (0, None), (-1, None), (True, None), ("many", None), (10**30, None)],
)
def test_a_count_is_a_plausible_whole_number(value: object, count: int | None) -> None:
    found = count_finding(Value(value, "train.py", 3))  # type: ignore[arg-type]
    assert (None if found is None else found.value) == count
    assert found is None or (found.file, found.line) == ("train.py", 3)
