"""Requests of other systems that name yolo: their settings train it, and leave a model."""

from pathlib import Path
from typing import Any

import pytest
from tests.trainers import shapes

from anygpu.spec import from_mapping
from anygpu.spec.compat import translate
from anygpu.trainers import get_trainer

pytestmark = pytest.mark.timeout(900)
DATASET = "/path/to/dataset"
TASK = {
    "tenant_id": "my-tenant",
    "training_params": {"epochs": 1, "batch_size": 16, "learning_rate": 0.001, "model_type": "detection"},
    "model_params": {"architecture": "yolo", "input_size": 64},
    "dataset": DATASET,
    "custom_name": "my-training-job",
    "wandb_tags": ["tag1", "tag2"],
}
CLOUD = {
    "datasetPath": DATASET,
    "trainingSettings": {
        "framework": "yolo",
        "modelVariant": "yolov11n",
        "epochs": 1,
        "batchSize": 16,
        "imageSize": 64,
    },
}
MODEL = {"model_name": "yolo11n", "config": {"epochs": 1, "imgsz": 64, "dataset_path": DATASET}}


@pytest.mark.parametrize("body", [TASK, CLOUD, MODEL], ids=["task", "cloud", "model"])
def test_the_settings_of_a_request_train_yolo(body: dict[str, Any], tmp_path: Path) -> None:
    translated = translate(body)
    spec = from_mapping(translated.mapping, renamed=translated.renamed)
    assert spec.dataset is not None
    assert spec.dataset.path == DATASET
    dataset = shapes.yolo_dataset(tmp_path / "shapes", train=8, val=4)
    settings: dict[str, Any] = {**spec.config, "device": "cpu", "export": []}
    result = get_trainer(
        str(spec.trainer), dataset_path=dataset, output_dir=tmp_path / "out", **settings
    ).train()
    assert result.epochs == 1
    assert result.best is not None
    assert result.best.is_file()
