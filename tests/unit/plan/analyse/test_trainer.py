"""Analysis of a job for a trainer: from its settings and the planner hints of built-in trainers."""

import ast
from pathlib import Path

import pytest

from anygpu import plan
from anygpu.plan.analyse.trainer import analyse_trainer
from anygpu.trainers.registry import ALIASES, BUILT_IN, declared_model_sizes, planner_hints

# Modules of anygpu.trainers that are not about one trainer.
SHARED = ("anygpu.trainers.config", "anygpu.trainers.contract", "anygpu.trainers.registry")


def test_a_trainers_settings_say_what_it_trains() -> None:
    read = analyse_trainer("yolo", {"variant": "yolo11s", "epochs": 50, "imgsz": 640, "amp": True})
    assert read.model is not None
    assert read.parameters is not None
    assert read.epochs is not None
    assert read.image_size is not None
    assert read.precision is not None
    assert (read.model.value, read.epochs.value, read.image_size.value) == ("yolo11s", 50, 640)
    assert (read.precision.value, 9e6 < read.parameters.value < 10e6) == ("fp16", True)
    needs = read.characteristics
    assert needs is not None
    assert needs.interruptible.value
    assert needs.gpu_memory_gb.value > 1


def test_the_gpus_of_a_trainer_share_each_batch_and_its_memory() -> None:
    settings = {"model": "resnet50", "batch_size": 64, "image_size": 224}
    one, four = (
        analyse_trainer("torch-classifier", settings, gpus=count).characteristics for count in (1, 4)
    )
    assert one is not None
    assert four is not None
    assert four.gpus == 4
    assert 0.25 < four.gpu_memory_gb.value / one.gpu_memory_gb.value < 0.5
    assert one.effort is not None
    assert four.effort is not None
    assert (four.effort.sharing, four.effort.batches) == ("batch", one.effort.batches)
    alone = analyse_trainer("xgboost", {"target": "y"}, gpus=4)
    assert alone.multi_gpu is None


@pytest.mark.parametrize("trainer", ["tabular", "xgboost", "random-forest"])
def test_tables_need_no_gpu(trainer: str) -> None:
    read = analyse_trainer(trainer, {})
    assert read.needs_gpu is not None
    assert not read.needs_gpu.value


@pytest.mark.parametrize(
    ("trainer", "epochs", "batch"), [("tabular", 100, None), ("rtdetr", 10, 4), ("yolo", 10, 16)]
)
def test_what_is_not_set_is_as_that_trainer_has_it(trainer: str, epochs: int, batch: int | None) -> None:
    read = analyse_trainer(trainer, {})
    assert read.epochs is not None
    assert read.epochs.value == epochs
    assert (read.batch_size and read.batch_size.value) == batch


@pytest.mark.parametrize("wrong", ["many", -1, True, None, [3], 10**12])
def test_a_setting_that_is_none_counts_as_not_given(wrong: object) -> None:
    read = analyse_trainer("./mine.py:Mine", {"epochs": wrong})
    assert read.epochs is not None
    assert (read.epochs.value, read.epochs.confidence_level) == (10, "medium")


def test_a_model_that_is_not_named_is_the_trainers_default() -> None:
    analysis = analyse_trainer("rtdetr", {})
    assert analysis.model is not None
    assert analysis.parameters is not None
    assert (analysis.model.value, analysis.parameters.value) == ("rtdetr-r18", 20_000_000)
    assert analysis.model.confidence_level == analysis.parameters.confidence_level == "medium"
    assert analysis.requirements == ("torch",)


def test_the_size_of_a_declared_model_is_used_for_other_trainers_too() -> None:
    analysis = analyse_trainer("./mine.py:Mine", {"model": "gpt-mini"})
    assert analysis.parameters is not None
    assert analysis.parameters.value == 10_600_000


def test_a_third_party_trainer_is_analysed_without_running_its_code(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("raise SystemExit('the planner ran this file')")
    name = f"{file}:Mine"
    analysis = analyse_trainer(name, {})
    assert [framework.value for framework in analysis.frameworks] == [name]
    assert (analysis.model, analysis.parameters, analysis.requirements) == (None, None, ())
    assert analysis.needs_gpu is not None
    assert analysis.needs_gpu.value
    assert analysis.resuming is not None
    assert analysis.resuming.confidence_level == "medium"


def imports(node: ast.AST) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else []


def test_the_planner_names_no_trainer() -> None:
    """Other modules of plan/ name frameworks such as xgboost, which are imports of a user's script."""
    names = {*BUILT_IN, *ALIASES, *declared_model_sizes()}
    names |= {planner_hints(name).default_model for name in BUILT_IN} - {""}
    users = []
    for path in Path(plan.__file__).parent.rglob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        imported = [name for node in nodes for name in imports(node) if name.startswith("anygpu.trainers")]
        assert all(name.startswith(SHARED) for name in imported), path
        if imported:
            users.append(path)
            assert not names & {node.value for node in nodes if isinstance(node, ast.Constant)}, path
    assert users


@pytest.mark.parametrize(
    ("trainer", "config", "framework"),
    [
        ("tabular", {}, "sklearn"),
        ("tabular", {"model": "xgboost"}, "xgboost"),
        ("tabular", {"model": "lightgbm"}, "lightgbm"),
        ("tabular", {"model": "random_forest"}, "sklearn"),
        ("xgboost", {}, "xgboost"),
        ("lightgbm", {}, "lightgbm"),
        ("yolo", {}, "ultralytics"),
    ],
)
def test_the_framework_is_that_of_the_model(trainer: str, config: dict[str, str], framework: str) -> None:
    assert [each.value for each in analyse_trainer(trainer, config).frameworks] == [framework]
