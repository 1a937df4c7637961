"""Write the dataset in ultralytics' layout, and shuffle its samples by seed and epoch number only."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from anygpu.trainers import data
from anygpu.trainers.config import TrainingConfig
from anygpu.trainers.torch.sampling import shuffle as shuffled


def read(config: TrainingConfig, path: Path, task: str) -> data.Dataset:
    return data.load(path, task=task, val_fraction=config.val_fraction, seed=config.seed)


def prepare(dataset: data.Dataset, task: str, target: Path) -> Path:
    """Write the dataset to `target` in ultralytics' layout; return what to pass to ultralytics as `data`.

    An existing `target` is removed first, because it may contain paths of another machine.
    """
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    return class_folders(dataset, target) if task == "classify" else data.to_yolo(dataset, target)


def class_folders(dataset: data.Dataset, target: Path) -> Path:
    """Write the images to <split>/<class> folders in `target`; return `target`.

    Every split gets a folder for every class, so that class indices are the same in all splits.
    """
    for split, items in dataset.splits.items():
        for name in dataset.classes:
            (target / split / name).mkdir(parents=True, exist_ok=True)
        for number, item in enumerate(items):
            assert item.label is not None  # classification datasets always have labels
            place = target / split / dataset.classes[item.label]
            _link(item.image, place / f"{number:06}{item.image.suffix}")
    return target


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source.resolve(), target)
    except OSError:
        shutil.copyfile(source, target)


class EpochOrder:
    """Sampler in which each iteration has the order of the next epoch. The first may skip samples when resuming."""

    def __init__(
        self, samples: int, *, seed: int, epoch: int = 0, skip: int = 0, shuffle: bool = True
    ) -> None:
        self._samples, self._seed, self._shuffle = samples, seed, shuffle
        self.next_epoch, self._skip = epoch, skip
        self._cached_order: tuple[int, list[int]] = (-1, [])  # (epoch, indices)

    def __len__(self) -> int:
        return self._samples

    def __iter__(self) -> Iterator[int]:
        order = self.of(self.next_epoch)[self._skip :]
        self.next_epoch, self._skip = self.next_epoch + 1, 0
        return iter(order)

    def of(self, epoch: int) -> list[int]:
        if self._cached_order[0] != epoch:
            plain = list(range(self._samples))
            order = shuffled(self._samples, self._seed, epoch) if self._shuffle else plain
            self._cached_order = (epoch, order)
        return self._cached_order[1]
