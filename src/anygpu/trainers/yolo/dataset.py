"""Write the dataset in ultralytics' layout, and shuffle its samples by seed and epoch number only."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from anygpu.trainers import data
from anygpu.trainers.config import TrainingConfig
from anygpu.trainers.ranks import SINGLE, Ranks, part_of
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


def prepared_path(task: str, target: Path) -> Path:
    """Return what `prepare` returns, in a process that finds the dataset written by another one."""
    return target if task == "classify" else target / "data.yaml"


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
    """Sampler in which each iteration has the order of the next epoch. The first may skip batches when resuming.

    With several `ranks`, it yields only this rank's part of each batch. If the ranks cannot divide the last batch of an
    epoch evenly, it is filled with samples from the beginning of the epoch.
    """

    def __init__(
        self,
        samples: int,
        batch_size: int,
        *,
        seed: int,
        epoch: int = 0,
        skip: int = 0,
        shuffle: bool = True,
        ranks: Ranks = SINGLE,
    ) -> None:
        self._samples, self._batch_size, self._ranks = samples, batch_size, ranks
        self._seed, self._shuffle = seed, shuffle
        self.next_epoch, self._skip = epoch, skip
        self._cached_order: tuple[int, list[int]] = (-1, [])  # (epoch, indices)

    def __len__(self) -> int:
        whole, rest = divmod(self._samples, self._batch_size)
        return whole * (self._batch_size // self._ranks.size) + -(-rest // self._ranks.size)

    def __iter__(self) -> Iterator[int]:
        epoch, batches = self.next_epoch, range(self._skip, -(-self._samples // self._batch_size))
        self.next_epoch, self._skip = epoch + 1, 0
        return iter([index for number in batches for index in self._part(epoch, number)])

    def batch(self, epoch: int, number: int) -> list[int]:
        """Return the samples of a batch, those of all ranks."""
        return self.of(epoch)[number * self._batch_size : (number + 1) * self._batch_size]

    def _part(self, epoch: int, number: int) -> Sequence[int]:
        batch = self.batch(epoch, number)
        missing = -len(batch) % self._ranks.size
        return part_of([*batch, *itertools.islice(itertools.cycle(self.of(epoch)), missing)], self._ranks)

    def of(self, epoch: int) -> list[int]:
        if self._cached_order[0] != epoch:
            plain = list(range(self._samples))
            order = shuffled(self._samples, self._seed, epoch) if self._shuffle else plain
            self._cached_order = (epoch, order)
        return self._cached_order[1]
