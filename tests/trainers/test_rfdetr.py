"""rfdetr trains Roboflow's smallest model from scratch, and killed anywhere ends where an uninterrupted run ends."""

import random
from pathlib import Path

import pytest
from tests.trainers import shapes
from tests.trainers.comparing import left_behind

from anygpu.testing.training_process import TrainingProcess

pytestmark = pytest.mark.timeout(900)  # minutes when the machine is busy
EPOCHS, STEPS = 10, 2  # 4 images in batches of 2
SMALL = {
    "model": "rf-detr-nano",
    "epochs": EPOCHS,
    "image_size": 64,
    "batch_size": 2,
    "device": "cpu",
    "threads": 1,
    "queries": 10,
    "groups": 1,
    "lr": 0.0003,
    "warmup_steps": 4,
    "floor": 0.3,
    "jitter": 0.0,
    "flip": 0.0,
    "checkpoint_every_s": 0,
}


def test_its_loss_falls_and_killed_at_a_random_step_it_ends_bit_for_bit_the_same(tmp_path: Path) -> None:
    dataset = shapes.yolo_dataset(tmp_path / "shapes", train=4, val=2)
    training = TrainingProcess(trainer="rfdetr", dataset=dataset, settings=SMALL)
    whole = training.run(tmp_path / "whole")
    losses = [epoch["loss"] for epoch in whole["history"]]
    assert min(losses) < 0.93 * losses[0]  # at seconds a step it is not trained far
    (export,) = whole["exports"]
    assert (export["format"], export["opset"], export["tolerance"]) == ("onnx", 17, 1e-3)
    assert export["difference"] <= 1e-3

    seen = training.run_until(tmp_path / "killed", random.Random(4).randint(STEPS + 1, EPOCHS * STEPS - 2))
    resumed = TrainingProcess(trainer="rfdetr", dataset=dataset, settings={**SMALL, "export": []})
    result = resumed.run(tmp_path / "killed", resume=True)
    assert seen - 1 <= result["first_step"] <= seen + 1
    assert left_behind(tmp_path / "killed", result) == left_behind(tmp_path / "whole", whole)
