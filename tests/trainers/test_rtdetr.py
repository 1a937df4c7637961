"""rtdetr learns squares and discs from scratch, and killed anywhere ends where an uninterrupted run ends."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from safetensors import safe_open
from tests.trainers import shapes
from tests.trainers.comparing import left_behind

from anygpu.testing.training_process import TrainingProcess
from anygpu.trainers import TrainingResult, data, get_trainer

pytestmark = pytest.mark.timeout(900)  # minutes when the machine is busy
BAR = 0.4  # mAP50; an untrained model has 0
SMALL: dict[str, Any] = {
    "model": "rtdetr-tiny",
    "image_size": 64,
    "batch_size": 8,
    "device": "cpu",
    "threads": 1,
    "queries": 20,
    "lr": 0.002,
    "warmup_steps": 10,
    "clip": 1.0,
    "jitter": 0.0,
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> TrainingResult:
    drawn = shapes.yolo_dataset(tmp_path_factory.mktemp("shapes") / "shapes")
    dataset = data.to_coco(data.load(drawn), tmp_path_factory.mktemp("coco") / "coco")
    output = tmp_path_factory.mktemp("trained")
    settings: dict[str, Any] = {**SMALL, "epochs": 18, "export": ["onnx", "safetensors"]}
    return get_trainer("rt-detr", dataset_path=dataset, output_dir=output, **settings).train()


def test_it_gets_better_and_passes_the_bar(trained: TrainingResult) -> None:
    assert trained.metrics["mAP50"] > BAR
    assert trained.metrics["mAP50-95"] > 0.2
    assert trained.history[0]["mAP50"] < 0.2
    assert trained.history[-1]["loss"] < 0.5 * trained.history[0]["loss"]


def test_its_exports_are_compared_with_the_model(trained: TrainingResult) -> None:
    found = {each.format: each for each in trained.exports}
    assert set(found) == {"onnx", "safetensors"}
    assert (found["onnx"].opset, found["onnx"].inputs) == (17, {"images": (1, 3, 64, 64)})
    assert all(each.difference is not None and each.difference <= 1e-3 for each in trained.exports)


def test_its_weights_say_what_they_are(trained: TrainingResult) -> None:
    with safe_open(str(trained.best), framework="pt") as file:
        about = json.loads(file.metadata()["anygpu"])
    assert json.loads(about["classes"]) == list(shapes.CLASSES)
    assert about["image_size"] == "64"


@pytest.mark.parametrize("model", ["rtdetr-tiny", "rtdetrv2-tiny"])
def test_killed_at_a_random_step_it_ends_bit_for_bit_the_same(model: str, tmp_path: Path) -> None:
    dataset = shapes.yolo_dataset(tmp_path / "shapes", train=16, val=4)
    averaged = {"ema": 0.99, "jitter": 0.2, "workers": 2 if model == "rtdetr-tiny" else 0}
    few = {"epochs": 3, "batch_size": 4, "export": [], "checkpoint_every_s": 0}
    training = TrainingProcess(
        trainer="rtdetr", dataset=dataset, settings={**SMALL, **averaged, **few, "model": model}
    )
    whole = left_behind(tmp_path / "whole", training.run(tmp_path / "whole"))
    seen = training.run_until(tmp_path / "killed", random.Random(model).randint(2, 10))
    result = training.run(tmp_path / "killed", resume=True)
    assert seen - 1 <= result["first_step"] <= seen + 1
    assert left_behind(tmp_path / "killed", result) == whole
