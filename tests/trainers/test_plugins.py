"""Plugins get torch's loaders where torch is installed, whatever the layout of the dataset."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.trainers import shapes

from anygpu.trainers import get_trainer
from anygpu.trainers.plugins import registry


@pytest.fixture
def looked() -> Iterator[dict[str, Any]]:
    """A registered plugin's config, and the first batch it was given."""
    found: dict[str, Any] = {}

    class Looks:
        def __init__(self, config: dict[str, Any]) -> None:
            found["config"] = config

        def train(self, train_loader: Any, val_loader: Any, callbacks: Any = None) -> None:
            found["batch"] = next(iter(train_loader))
            found["lengths"] = (len(train_loader), len(val_loader))

    registry.register("looks", Looks)
    yield found
    registry._models.clear()


@pytest.mark.parametrize("workers", [0, 1])
def test_images_come_with_their_classes(tmp_path: Path, looked: dict[str, Any], workers: int) -> None:
    data = shapes.image_folder(tmp_path / "data", train=24, val=8)
    settings: dict[str, Any] = {"image_size": 32, "batch_size": 4, "workers": workers}
    get_trainer("looks", dataset_path=data, output_dir=tmp_path / "out", **settings).train()
    images, labels = looked["batch"]
    assert images.shape == (4, 3, 32, 32)
    assert 0.5 < float(images.max()) <= 1
    assert set(labels.tolist()) <= {0, 1}
    assert (looked["lengths"], looked["config"]["num_classes"]) == ((6, 2), 2)


def test_images_come_with_their_boxes(tmp_path: Path, looked: dict[str, Any]) -> None:
    data = shapes.yolo_dataset(tmp_path / "data", train=8, val=4)
    settings: dict[str, Any] = {"image_size": 32, "batch_size": 4}
    get_trainer("looks", dataset_path=data, output_dir=tmp_path / "out", **settings).train()
    images, targets = looked["batch"]
    assert (len(images), len(targets)) == (4, 4)
    for target in targets:
        assert target["boxes"].shape == (len(target["labels"]), 4)
        assert torch.all(target["boxes"][:, 2:] > target["boxes"][:, :2])
