"""Data loaders for a plugin: the plugin's own loaders, or loaders built from the dataset."""

from __future__ import annotations

import importlib.util
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anygpu.trainers.config import TrainingConfig


@dataclass(frozen=True)
class PluginLoaders:
    """Loaders for training and validation. Both are None without a dataset."""

    train: Any = None
    val: Any = None
    classes: tuple[str, ...] = ()
    sha256: str = ""
    order: SampleOrder | None = None

    def go_on_after(self, epochs: int) -> None:
        """Continue with the sample order of the next epoch, after `epochs` complete epochs, for a resumed training.

        This assumes that the plugin iterates over the loader once per epoch.
        """
        if self.order is not None:
            self.order.passes = epochs

    @property
    def pair(self) -> tuple[Any, Any]:
        return self.train, self.val


OwnLoaders = Callable[[Any, Path | None, dict[str, Any]], tuple[Any, Any]]


def own_loaders(plugin: type[Any]) -> OwnLoaders | None:
    """Return a function that creates the plugin's own loaders, or None if the plugin defines none.

    A plugin defines loaders by `prepare_dataloaders(dataset, config)` in its class or module, or by the
    methods `train_dataloader` and `val_dataloader`.
    """
    if hasattr(plugin, "prepare_dataloaders"):
        return lambda model, dataset, config: model.prepare_dataloaders(_text(dataset), config)
    beside = getattr(sys.modules.get(plugin.__module__), "prepare_dataloaders", None)
    if callable(beside):
        return lambda _, dataset, config: beside(_text(dataset), config)
    if hasattr(plugin, "train_dataloader"):
        return lambda model, *_: (
            model.train_dataloader(),
            model.val_dataloader() if hasattr(model, "val_dataloader") else None,
        )
    return None


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def build_loaders(dataset: Path | None, config: TrainingConfig) -> PluginLoaders:
    """Build loaders that yield batches of (inputs, targets).

    Batches are tensors if torch is installed, otherwise numpy arrays, otherwise lists.
    """
    if dataset is None:
        return PluginLoaders()
    from anygpu.trainers.plugins import samples  # imported only when there is a dataset

    made = samples.read(dataset, config)
    load = _torch_loader if importlib.util.find_spec("torch") else BatchIterator
    order = SampleOrder(len(made.train), config.seed)
    train, val = load(made.train, config, order), load(made.val, config, range(len(made.val)))
    return PluginLoaders(train, val, made.classes, made.sha256, order)


class SampleOrder:
    """Sampler that shuffles the samples anew in each iteration, by the seed and the number of earlier iterations."""

    def __init__(self, size: int, seed: int) -> None:
        self._size, self._seed = size, seed
        self.passes = 0

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[int]:
        chance = random.Random(f"{self._seed} {self.passes}")
        self.passes += 1
        return iter(chance.sample(range(self._size), self._size))


class BatchIterator:
    """Batch loader that does not need torch."""

    def __init__(self, dataset: Sequence[Any], config: TrainingConfig, order: Iterable[int]) -> None:
        self.dataset = dataset
        self.batch_size = config.batch_size
        self._order = order

    def __len__(self) -> int:
        return -(-len(self.dataset) // self.batch_size)

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        order = list(self._order)
        for at in range(0, len(order), self.batch_size):
            pairs = [self.dataset[index] for index in order[at : at + self.batch_size]]
            inputs, targets = zip(*pairs, strict=True)
            yield _stack(inputs), _stack(targets)


def _stack(values: Sequence[Any]) -> Any:
    """Return the values of a batch as one array; as a list if numpy is missing or the values are dicts."""
    if isinstance(values[0], dict) or importlib.util.find_spec("numpy") is None:
        return list(values)
    import numpy

    return numpy.asarray(values)


def _torch_loader(dataset: Sequence[Any], config: TrainingConfig, order: Iterable[int]) -> Any:
    from torch.utils.data import DataLoader

    return DataLoader(
        dataset,
        batch_size=config.batch_size,
        sampler=order,
        num_workers=config.workers,
        collate_fn=_torch_batch,
    )


def _torch_batch(pairs: Sequence[tuple[Any, Any]]) -> tuple[Any, Any]:
    inputs, targets = zip(*pairs, strict=True)
    return _tensor(inputs), _tensor(targets)


def _tensor(values: Sequence[Any]) -> Any:
    """Return the values of a batch as one tensor.

    Dicts of boxes stay a list of dicts, because the number of boxes differs between images.
    """
    import torch

    if isinstance(values[0], dict):
        return [{name: torch.as_tensor(value) for name, value in each.items()} for each in values]
    return torch.stack([torch.as_tensor(value) for value in values])
