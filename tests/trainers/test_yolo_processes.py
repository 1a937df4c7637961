"""yolo on several GPUs, here as processes on the CPU that gloo connects."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.trainers import shapes
from tests.trainers.processes import child_with_rank, is_running, started
from tests.trainers.test_yolo_resume import left_behind

from anygpu.testing.training_process import TrainingProcess

pytestmark = pytest.mark.timeout(900)  # minutes when the machine is busy
EPOCHS, STEPS = 2, 5  # of 17 images in batches of 4; the processes fill the last batch
PLAIN: dict[str, Any] = {"image_size": 64, "device": "cpu", "export": [], "workers": 0}
SETTINGS = {
    **PLAIN,
    "epochs": EPOCHS,
    "batch_size": 4,
    "checkpoint_every_s": 0,
    "nbs": 12,  # an optimiser step every three batches: a rank is killed with gradients under way
    "warmup_epochs": 1,
    "mosaic": 0.5,
    "close_mosaic": 1,
    "optimizer": "AdamW",
    "lr": 0.002,
}
# Without augmentation, every rank sees what one process sees.
UNCHANGED = dict.fromkeys(
    ("mosaic", "translate", "scale", "fliplr", "hsv_h", "hsv_s", "hsv_v", "erasing"), 0.0
)
# One optimiser step after three of four batches. The fourth leaves its gradients in the last checkpoint.
ONE_STEP: dict[str, Any] = {
    "optimizer": "SGD",
    "lr": 1e-12,
    "batch_size": 8,
    "nbs": 24,
    "epochs": 2,
    "warmup_epochs": 0,
    "auto_augment": "",
    "amp": True,  # on a CPU it is checked, but not used
}


def yolo(dataset: Path, processes: int, **settings: Any) -> TrainingProcess:
    return TrainingProcess(trainer="yolo", dataset=dataset, settings=settings, processes=processes)


def kill_rank(dataset: Path, output: Path, step: int) -> bytes:
    """Train with two processes, kill rank 1 at a step, and return what the training wrote as its error."""
    command = [sys.executable, "-m", "anygpu.trainers", "yolo", json.dumps(SETTINGS), "--json"]
    command += ["--dataset", str(dataset), "--output", str(output), "--processes", "2"]
    with started(command) as training:
        assert training.stdout is not None
        while json.loads(training.stdout.readline())["data"]["step"] < step:
            pass
        ranks = {rank: child_with_rank(training.pid, rank) for rank in (0, 1)}
        os.kill(ranks[1], signal.SIGKILL)
        _, errors = training.communicate(timeout=300)
        assert training.returncode == 128 + signal.SIGKILL
        assert not any(is_running(pid) for pid in ranks.values())
    return errors


def test_a_killed_rank_ends_all_and_the_training_resumes_on_any_number_of_gpus(tmp_path: Path) -> None:
    dataset = shapes.yolo_dataset(tmp_path / "shapes", train=17, val=4)
    whole = yolo(dataset, 2, **SETTINGS).run(tmp_path / "whole")
    assert (whole["epochs"], whole["timing"]["steps"]) == (EPOCHS, EPOCHS * STEPS)

    assert b"rank 1 failed (killed by SIGKILL)" in kill_rank(dataset, tmp_path / "killed", 2)
    shutil.copytree(tmp_path / "killed" / "checkpoints", tmp_path / "changed" / "checkpoints")
    resumed = yolo(dataset, 2, **SETTINGS).run(tmp_path / "killed", resume=True)
    assert resumed["first_step"] > 1
    assert left_behind(tmp_path / "killed", resumed) == left_behind(tmp_path / "whole", whole)

    seen = yolo(dataset, 1, **SETTINGS).run_until(tmp_path / "changed", STEPS + 2, resume=True)
    changed = yolo(dataset, 2, **{**SETTINGS, "export": ["onnx"]}).run(tmp_path / "changed", resume=True)
    assert changed["first_step"] >= seen - 1
    assert changed["samples_sha256"] == whole["samples_sha256"]
    assert (changed["epochs"], changed["timing"]["steps"]) == (EPOCHS, EPOCHS * STEPS)
    assert 0 <= changed["exports"][0]["difference"] <= changed["exports"][0]["tolerance"]
    assert (tmp_path / "changed" / "stderr.txt").read_text().count("done after") == 1


def same_pictures(root: Path) -> Path:
    """A detection set whose images are all the same, so that each rank's part of a batch is like the whole.

    The object fills the image: an untrained model finds a part of it. Ultralytics divides the loss by what the model
    finds of all objects, but at least by 1.
    """
    shapes.yolo_dataset(root, train=1, val=2)
    (root / "labels" / "train" / "000.txt").write_text("0 0.5 0.5 1 1\n")
    for number in range(1, 16):
        for folder, suffix in (("images", "png"), ("labels", "txt")):
            place = root / folder / "train"
            shutil.copyfile(place / f"000.{suffix}", place / f"{number:03}.{suffix}")
    return root


def same_pictures_of_two_classes(root: Path) -> Path:
    shapes.image_folder(root, train=1, val=2)
    picture = root / "train" / shapes.CLASSES[0] / "000.png"
    for number in range(1, 16):
        folder = root / "train" / shapes.CLASSES[0 if number % 4 else 1]
        folder.mkdir(exist_ok=True)
        shutil.copyfile(picture, folder / f"{number:03}.png")
    return root


@pytest.mark.parametrize("task", ["object-detection", "image-classification"])
def test_the_gradients_of_two_processes_are_those_of_one_if_their_parts_of_a_batch_are_alike(
    task: str, tmp_path: Path
) -> None:
    draw = same_pictures if task == "object-detection" else same_pictures_of_two_classes
    settings = {**PLAIN, **UNCHANGED, **ONE_STEP, "task": task}
    one, two = (
        yolo(draw(tmp_path / f"pictures{count}"), count, **settings).run(tmp_path / str(count))
        for count in (1, 2)
    )
    assert two["samples_sha256"] == one["samples_sha256"]
    for epoch, same in zip(two["history"], one["history"], strict=True):
        assert epoch["loss"] == pytest.approx(same["loss"], rel=1e-4)
    expected, found = (gradients_of_last_batch(tmp_path / str(count)) for count in (1, 2))
    assert found.numel() == expected.numel() > 1e6
    assert (found - expected).norm() < 0.05 * expected.norm()  # rounding, which batch normalisation amplifies


def gradients_of_last_batch(output: Path) -> torch.Tensor:
    state = torch.load(output / "checkpoints" / "last" / "state.pt", weights_only=True)
    return torch.cat([each.flatten() for each in state["gradients"].values()])


def test_two_processes_learn(tmp_path: Path) -> None:
    dataset = shapes.image_folder(tmp_path / "shapes")
    settings = {"task": "image-classification", "epochs": 4, "batch_size": 8, "nbs": 8, "warmup_epochs": 0}
    how = {"optimizer": "AdamW", "lr": 0.001, "auto_augment": ""}
    result = yolo(dataset, 2, **PLAIN, **UNCHANGED, **settings, **how).run(tmp_path / "out")
    first, *others = (epoch["loss"] for epoch in result["history"])
    assert min(others) < 0.5 * first
    assert "val/loss" in result["metrics"]


def test_a_gpu_that_is_short_of_memory_ends_all_and_says_what_to_change(tmp_path: Path) -> None:
    dataset = shapes.yolo_dataset(tmp_path / "shapes", train=4, val=2)
    kind = f"{Path(__file__).with_name('short_of_memory.py')}:ShortOfMemory"
    training = TrainingProcess(
        trainer=kind, dataset=dataset, settings={**PLAIN, "epochs": 1, "batch_size": 4}, processes=2
    )
    with pytest.raises(AssertionError, match="exited with code 2"):
        training.run(tmp_path / "out")
    errors = (tmp_path / "out" / "stderr.txt").read_text()
    assert (
        "rank 1: a GPU has too little memory for its part of each batch; set a smaller batch_size" in errors
    )


def test_an_early_import_of_ultralytics_is_refused_on_several_gpus(tmp_path: Path) -> None:
    code = (
        "import ultralytics, pathlib\n"
        "from anygpu.trainers.yolo.isolation import isolate\n"
        f"isolate(pathlib.Path({str(tmp_path)!r}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2"},
        capture_output=True,
        text=True,
    )
    assert "TrainerError: ultralytics was imported before the training started" in done.stderr
