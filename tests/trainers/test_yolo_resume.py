"""yolo, killed by SIGKILL in the middle of an epoch, goes on elsewhere and ends where an uninterrupted run ends."""

import hashlib
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.trainers import shapes

from anygpu.testing.training_process import TrainingProcess

pytestmark = pytest.mark.timeout(900)  # minutes when the machine is busy
EPOCHS, STEPS = 3, 4  # of 16 images in batches of 4
SETTINGS = {
    "epochs": EPOCHS,
    "batch_size": 4,
    "image_size": 32,
    "device": "cpu",
    "export": [],
    "checkpoint_every_s": 0,
    "nbs": 12,  # an optimiser step every three batches: it is killed with gradients under way
    "warmup_epochs": 1,
    "mosaic": 0.5,
    "close_mosaic": 1,
    "optimizer": "AdamW",
    "lr": 0.002,
}


def left_behind(output: Path, result: dict[str, Any]) -> tuple[str, str, str, Any]:
    best, last = (weights_sha256(output / name) for name in ("best.pt", "last.pt"))
    return best, last, result["samples_sha256"], result["history"]


def weights_sha256(path: Path) -> str:
    weights = torch.load(path, weights_only=False)["model"].state_dict().values()
    return hashlib.sha256(b"".join(each.contiguous().numpy().tobytes() for each in weights)).hexdigest()


@pytest.mark.parametrize("model", ["yolo11n", "yolo26n"])
def test_killed_at_a_random_step_and_resumed_elsewhere_it_ends_bit_for_bit_the_same(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ultralytics  # noqa: F401  here, so that opening the weights later leaves nothing in the home below

    home, here = tmp_path / "home", tmp_path / "here"
    home.mkdir()
    here.mkdir()
    monkeypatch.delenv("YOLO_CONFIG_DIR")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("MPLCONFIGDIR", str(tmp_path / "matplotlib"))
    dataset = shapes.yolo_dataset(tmp_path / "shapes", train=16, val=4)
    training = TrainingProcess(
        trainer="yolo", dataset=dataset, settings={**SETTINGS, "model": model}, cwd=here
    )
    whole = left_behind(tmp_path / "whole", training.run(tmp_path / "whole"))

    seen = training.run_until(tmp_path / "killed", random.Random(model).randint(2, EPOCHS * STEPS - 2))

    elsewhere = tmp_path / "another" / "machine"
    shutil.copytree(tmp_path / "killed" / "checkpoints", elsewhere / "checkpoints")
    moved = shutil.copytree(dataset, tmp_path / "moved")
    resumed = TrainingProcess(trainer="yolo", dataset=moved, settings=training.settings, cwd=here)
    result = resumed.run(elsewhere, resume=True)
    assert (
        seen - 1 <= result["first_step"] <= seen + 1
    )  # the last step may have been told before it was saved
    assert left_behind(elsewhere, result) == whole
    assert [*home.rglob("*"), *here.rglob("*")] == []  # nothing is left outside the output directory
