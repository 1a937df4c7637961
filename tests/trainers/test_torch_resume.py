"""torch-classifier, killed anywhere by SIGKILL with data loader processes at work, ends where it would have ended."""

from pathlib import Path
from typing import Any

import pytest
from tests.trainers.comparing import chosen_steps, killed_and_resumed, left_behind
from tests.trainers.pictures import draw_folder

from anygpu.testing.training_process import TrainingProcess

EPOCHS, STEPS = 3, 6  # of 60 images, 48 to train on, in batches of 8
SETTINGS = {
    "epochs": EPOCHS,
    "batch_size": 8,
    "image_size": 24,
    "workers": 2,
    "threads": 1,
    "checkpoint_every_s": 0,
    "rotate": 10,
    "label_smoothing": 0.1,
    "class_weights": "balanced",
    "export": [],
}


def training(dataset: Path, trainer: str = "torch-classifier", **settings: Any) -> TrainingProcess:
    return TrainingProcess(trainer=trainer, dataset=dataset, settings={**SETTINGS, **settings})


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return draw_folder(tmp_path_factory.mktemp("pictures"), each=20, size=24)


@pytest.fixture(scope="module")
def whole(pictures: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    output = tmp_path_factory.mktemp("whole")
    return left_behind(output, training(pictures).run(output))


def test_killed_at_random_steps_it_ends_bit_for_bit_the_same(
    pictures: Path, whole: dict[str, Any], tmp_path: Path
) -> None:
    left, first = killed_and_resumed(training(pictures), tmp_path, chosen_steps(1, 2, EPOCHS * STEPS))
    assert left == whole
    assert first > 2


def test_killed_as_an_epoch_ends_it_ends_bit_for_bit_the_same(
    pictures: Path, whole: dict[str, Any], tmp_path: Path
) -> None:
    left, _ = killed_and_resumed(training(pictures), tmp_path, iter((STEPS, 2 * STEPS + 1)))
    assert left == whole


def test_killed_in_the_middle_of_a_validation_it_ends_bit_for_bit_the_same(
    pictures: Path, whole: dict[str, Any], tmp_path: Path
) -> None:
    dying = training(pictures, f"{Path(__file__).with_name('dies_in_validation.py')}:DiesInValidation")
    with pytest.raises(AssertionError, match="exited with code -9"):
        dying.run(tmp_path)
    result = dying.run(tmp_path, resume=True)
    assert left_behind(tmp_path, result) == whole
    assert result["first_step"] == 2 * STEPS  # the report of the epoch: not one step was taken again


def test_with_any_number_of_data_loader_processes_it_sees_and_learns_the_same(
    pictures: Path, whole: dict[str, Any], tmp_path: Path
) -> None:
    assert left_behind(tmp_path, training(pictures, workers=0).run(tmp_path)) == whole
