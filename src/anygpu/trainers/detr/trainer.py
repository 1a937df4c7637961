"""Base class of the trainers for detection transformers."""

from __future__ import annotations

from pathlib import Path

from anygpu.trainers import data
from anygpu.trainers.config import TrainingConfig
from anygpu.trainers.torch.trainer import TorchTrainer


class DetrTrainer(TorchTrainer):
    goal = ("mAP50-95", "max")
    dataset_format = "a folder or archive of images with boxes, in YOLO or COCO layout"

    @classmethod
    def check_dataset(cls, config: TrainingConfig, path: Path) -> None:
        read_boxes(config, path)

    def prepare_dataset(self) -> None:
        self.dataset = read_boxes(self.config, self.require_dataset())
        self.data_hash = self.dataset.sha256


def read_boxes(config: TrainingConfig, path: Path) -> data.Dataset:
    return data.load(path, task="detect", val_fraction=config.val_fraction, seed=config.seed)
