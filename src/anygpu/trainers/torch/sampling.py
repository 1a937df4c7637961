"""Choose the samples of each step. They depend only on seed, epoch and step.

This allows a training to resume in the middle of an epoch.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from anygpu.trainers.errors import BadConfig
from anygpu.trainers.ranks import SINGLE, Ranks, part_of

Place = tuple[int, int]  # (epoch, sample index); determines the sample's augmentation


class BatchSampler:
    """Yields the batches of an epoch, from a step on. The method `start` sets the epoch and the step.

    With several `ranks`, each rank gets its part of every batch.
    """

    def __init__(
        self, samples: int, batch_size: int, seed: int, *, drop_last: bool = False, ranks: Ranks = SINGLE
    ) -> None:
        if ranks.size > 1 and samples < batch_size:
            raise BadConfig(
                f"batch_size: the dataset has {samples} training samples, so {ranks.size} GPUs cannot share a "
                f"batch of {batch_size}; set a smaller one, or use one GPU"
            )
        self.samples, self.batch_size, self.seed = samples, batch_size, seed
        self._drop_last = drop_last and samples >= batch_size
        self._ranks = ranks
        self._epoch = self._step = 0
        self._order: tuple[int, Sequence[int]] = (-1, ())  # (epoch, shuffled indices)

    def start(self, epoch: int, step: int) -> None:
        self._epoch, self._step = epoch, step

    @property
    def steps_per_epoch(self) -> int:
        whole, rest = divmod(self.samples, self.batch_size)
        return whole if self._drop_last or not rest else whole + 1

    def __len__(self) -> int:
        return self.steps_per_epoch - self._step

    def __iter__(self) -> Iterator[list[Place]]:
        for step in range(self._step, self.steps_per_epoch):
            batch = part_of(self.indices(self._epoch, step), self._ranks)
            yield [(self._epoch, index) for index in batch]

    def indices(self, epoch: int, step: int) -> Sequence[int]:
        """Return the indices of the samples of one step, of all ranks."""
        if self._order[0] != epoch:
            self._order = epoch, shuffle(self.samples, self.seed, epoch)
        return self._batch(self._order[1], step)

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
