"""yolo learns squares and discs from scratch; every task of it trains; what it exports answers the same."""

from pathlib import Path
from typing import Any

import pytest
from tests.trainers import shapes

from anygpu.trainers import At, BadConfig, LocalContext, TrainingResult, data, get_trainer

pytestmark = pytest.mark.timeout(900)  # minutes when the machine is busy
BAR = 0.5  # mAP50; an untrained model has 0
# One optimiser step a batch, and images that stay recognisable at 64 pixels.
LEARNS = {"optimizer": "AdamW", "lr": 0.002, "nbs": 8, "warmup_epochs": 1, "mosaic": 0.5, "close_mosaic": 3}
SMALL: dict[str, Any] = {"image_size": 64, "batch_size": 8, "device": "cpu", **LEARNS}


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shapes.yolo_dataset(tmp_path_factory.mktemp("shapes") / "shapes")


@pytest.fixture(scope="module")
def trained(drawn: Path, tmp_path_factory: pytest.TempPathFactory) -> TrainingResult:
    output = tmp_path_factory.mktemp("trained")
    settings: dict[str, Any] = {**SMALL, "model": "yolov11n", "epochs": 12, "export": ["onnx", "torchscript"]}
    return get_trainer("yolo", dataset_path=drawn, output_dir=output, **settings).train()


def test_it_gets_better_and_passes_the_bar(trained: TrainingResult) -> None:
    assert trained.metrics["mAP50"] > BAR
    assert trained.metrics["mAP50-95"] > 0.25
    assert trained.history[0]["mAP50"] < 0.2
    assert trained.history[-1]["loss"] < 0.5 * trained.history[0]["loss"]
    assert {"precision", "recall"} < set(trained.metrics)


def test_its_exports_are_compared_with_the_model(trained: TrainingResult) -> None:
    onnx, script = trained.exports
    assert (onnx.format, script.format) == ("onnx", "torchscript")
    for export in trained.exports:
        assert export.path.is_file()
        assert export.inputs["images"] == (1, 3, 64, 64)
        assert export.difference is not None
        assert export.difference <= 0.032  # half a thousandth of the image's side, in pixels
    assert onnx.opset is not None


def test_its_weights_open_in_ultralytics_and_find_a_shape(trained: TrainingResult, drawn: Path) -> None:
    from ultralytics import YOLO  # not earlier: importing it writes settings where the fixtures say

    model = YOLO(str(trained.best))
    assert list(model.names.values()) == list(shapes.CLASSES)
    found = model.predict(
        drawn / "images" / "val" / "000.png", imgsz=64, conf=0.01, verbose=False, save=False
    )
    assert len(found[0].boxes) >= 1


def test_the_card_says_the_licence(trained: TrainingResult) -> None:
    assert trained.card is not None
    assert "AGPL-3.0" in trained.card.read_text()


@pytest.mark.parametrize(
    ("task", "labels", "metric"),
    [("instance-segmentation", "outlines", "mask_mAP50"), ("pose-estimation", "keypoints", "pose_mAP50")],
)
def test_the_other_tasks_train_too(task: str, labels: str, metric: str, tmp_path: Path) -> None:
    dataset = shapes.yolo_dataset(tmp_path / "shapes", train=8, val=4, labels=labels)
    settings: dict[str, Any] = {**SMALL, "task": task, "epochs": 1}
    result = get_trainer("yolo", dataset_path=dataset, output_dir=tmp_path / "out", **settings).train()
    assert metric in result.metrics
    assert result.exports[0].difference is not None


def test_classification_trains_from_an_image_folder(tmp_path: Path) -> None:
    dataset = shapes.image_folder(tmp_path / "shapes")
    settings: dict[str, Any] = {**SMALL, "task": "image-classification", "epochs": 2, "erasing": 0.0}
    result = get_trainer("yolo", dataset_path=dataset, output_dir=tmp_path / "out", **settings).train()
    assert 0 <= result.metrics["accuracy"] <= 1
    assert result.timing.steps == 6
    assert result.exports[0].difference is not None


class StopsAt(LocalContext):
    def __init__(self, output: Path, step: int, *, resume: bool = False) -> None:
        super().__init__(output, resume=resume, bar=False)
        self.stop_at, self.steps = step, list[int]()

    def report(self, metrics: Any, at: At) -> None:
        self.steps.append(at.step)

    def should_stop(self) -> bool:
        return self.steps[-1] == self.stop_at


def test_it_stops_when_asked_and_goes_on_from_there_with_a_coco_dataset(tmp_path: Path) -> None:
    drawn = shapes.yolo_dataset(tmp_path / "shapes", train=8, val=4)
    dataset = data.to_coco(data.load(drawn), tmp_path / "coco")
    settings: dict[str, Any] = {**SMALL, "model": "yolo26n", "batch_size": 2, "epochs": 2, "export": []}
    output = tmp_path / "out"
    stops, goes_on = StopsAt(output, 3), StopsAt(output, -1, resume=True)
    stopped = get_trainer("yolo", dataset_path=dataset, output_dir=output, context=stops, **settings).train()
    assert (stopped.stopped, stopped.timing.steps) == (True, 3)
    result = get_trainer("yolo", dataset_path=dataset, output_dir=output, context=goes_on, **settings).train()
    assert (goes_on.steps[0], result.epochs, result.timing.steps) == (4, 2, 8)


def test_a_value_ultralytics_refuses_is_said_without_a_traceback(tmp_path: Path) -> None:
    dataset = shapes.yolo_dataset(tmp_path / "shapes", train=2, val=2)
    trainer = get_trainer("yolo", dataset_path=dataset, output_dir=tmp_path / "out", **SMALL, mixup=7.0)
    with pytest.raises(BadConfig, match="mixup"):
        trainer.train()


def test_a_relative_output_directory_holds_everything(
    drawn: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings: dict[str, Any] = {
        "model": "yolo11n",
        "epochs": 1,
        "batch_size": 8,
        "image_size": 32,
        "device": "cpu",
        "export": [],
    }
    get_trainer("yolo", dataset_path=drawn.resolve(), output_dir="out", **settings).train()
    assert [each.name for each in tmp_path.iterdir()] == ["out"]
    assert (tmp_path / "out" / "ultralytics" / "run" / "args.yaml").is_file()
