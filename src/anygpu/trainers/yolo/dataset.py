"""The dataset as ultralytics wants it: a data.yaml, or for classification a folder for each class."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from anygpu.trainers import data
from anygpu.trainers.config import TrainingConfig


def read(config: TrainingConfig, path: Path, task: str) -> data.Dataset:
    return data.load(path, task=task, val_fraction=config.val_fraction, seed=config.seed)


def prepared(dataset: data.Dataset, task: str, target: Path) -> Path:
    """Written anew each time: paths are this machine's."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    return class_folders(dataset, target) if task == "classify" else data.to_yolo(dataset, target)


def class_folders(dataset: data.Dataset, target: Path) -> Path:
    """Every class has a folder in every split, so that its number is the same in all."""
    for split, items in dataset.splits.items():
        for name in dataset.classes:
            (target / split / name).mkdir(parents=True, exist_ok=True)
        for number, item in enumerate(items):
            assert item.label is not None  # the layout of the task has one
            place = target / split / dataset.classes[item.label]
            _link(item.image, place / f"{number:06}{item.image.suffix}")
    return target


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source.resolve(), target)
    except OSError:
        shutil.copyfile(source, target)
