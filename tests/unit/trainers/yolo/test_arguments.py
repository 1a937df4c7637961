"""Settings become the arguments of ultralytics."""

from pathlib import Path
from typing import Any

from anygpu.trainers.config import TrainingConfig
from anygpu.trainers.yolo.arguments import NAMES, OURS, overrides


def arguments(**settings: Any) -> dict[str, Any]:
    config = TrainingConfig(**settings)
    return overrides(
        config, model="yolo11n.pt", task="detect", data=Path("data.yaml"), home=Path("/tmp/home")
    )


def test_our_names_become_theirs() -> None:
    made = arguments(batch_size=4, image_size=320, epochs=2, seed=5)
    assert (made["batch"], made["imgsz"], made["epochs"], made["seed"]) == (4, 320, 2, 5)
    assert (made["model"], made["task"], made["data"]) == ("yolo11n.pt", "detect", "data.yaml")


def test_anygpu_stops_and_saves_itself() -> None:
    made = arguments()
    assert (made["patience"], made["plots"], made["exist_ok"]) == (0, False, True)
    assert not {"save", "save_dir", "time", "resume"} & {*NAMES, *OURS.values()}


def test_a_learning_rate_without_an_optimizer_chooses_one_that_honours_it() -> None:
    assert arguments(learning_rate=0.01)["optimizer"] == "SGD"
    assert arguments(learning_rate=0.01, optimizer="AdamW")["optimizer"] == "AdamW"
    assert "optimizer" not in arguments()


def test_a_scheduler_and_a_device_are_passed_on_if_they_are_chosen() -> None:
    assert arguments(scheduler="cosine")["cos_lr"] is True
    assert arguments(scheduler="linear")["cos_lr"] is False
    assert "cos_lr" not in arguments()
    assert arguments(device="cpu")["device"] == "cpu"
    assert "device" not in arguments(device="auto")


def test_options_of_ultralytics_are_passed_unchanged() -> None:
    made = arguments(options={"mosaic": 0.5, "plots": True})
    assert (made["mosaic"], made["plots"]) == (0.5, True)


def test_each_rank_has_its_own_directory_and_only_the_first_plots() -> None:
    config = TrainingConfig(options={"plots": True})
    first, second = (
        overrides(
            config, model="yolo11n", task="detect", data=Path("data.yaml"), home=Path("/tmp/home"), rank=rank
        )
        for rank in (0, 1)
    )
    assert (first["name"], first["plots"]) == ("run", True)
    assert (second["name"], second["plots"]) == ("rank1", False)
