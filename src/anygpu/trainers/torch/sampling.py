"""Choose the samples of each step. They depend only on seed, epoch and step.

This allows a training to resume in the middle of an epoch.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

Place = tuple[int, int]  # (epoch, sample index); determines the sample's augmentation


class BatchSampler:
    """Yields the batches of an epoch, from a step on. The method `start` sets the epoch and the step."""

    def __init__(self, samples: int, batch_size: int, seed: int, *, drop_last: bool = False) -> None:
        self.samples, self.batch_size, self.seed = samples, batch_size, seed
        self._drop_last = drop_last and samples >= batch_size
        self._epoch = self._step = 0

    def start(self, epoch: int, step: int) -> None:
        self._epoch, self._step = epoch, step

    @property
    def steps_per_epoch(self) -> int:
        whole, rest = divmod(self.samples, self.batch_size)
        return whole if self._drop_last or not rest else whole + 1

    def __len__(self) -> int:
        return self.steps_per_epoch - self._step

    def __iter__(self) -> Iterator[list[Place]]:
        order = shuffle(self.samples, self.seed, self._epoch)
        for step in range(self._step, self.steps_per_epoch):
            yield [(self._epoch, index) for index in self._batch(order, step)]

    def _batch(self, order: Sequence[int], step: int) -> Sequence[int]:
        return order[step * self.batch_size : (step + 1) * self.batch_size]


def shuffle(samples: int, seed: int, epoch: int) -> list[int]:
    order = list(range(samples))
    random.Random(f"order {seed} {epoch}").shuffle(order)
    return order


def chance_of(seed: int, place: Place) -> random.Random:
    """Return the random generator for the augmentation of a sample. It is the same in every data loader process."""
    epoch, index = place
    return random.Random(f"sample {seed} {epoch} {index}")
