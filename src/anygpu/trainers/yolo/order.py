"""The order of the samples in an epoch depends on the seed and the epoch alone: a resumed run sees the same."""

from __future__ import annotations

from collections.abc import Iterator

from anygpu.trainers.torch.sampling import shuffled


class EpochOrder:
    """A sampler. Each pass is the next epoch; the first may begin in the middle."""

    def __init__(
        self, samples: int, *, seed: int, epoch: int = 0, skip: int = 0, shuffle: bool = True
    ) -> None:
        self._samples, self._seed, self._shuffle = samples, seed, shuffle
        self.next_epoch, self._skip = epoch, skip
        self._known: tuple[int, list[int]] = (-1, [])  # asked for after every batch: shuffled once an epoch

    def __len__(self) -> int:
        return self._samples

    def __iter__(self) -> Iterator[int]:
        order = self.of(self.next_epoch)[self._skip :]
        self.next_epoch, self._skip = self.next_epoch + 1, 0
        return iter(order)

    def of(self, epoch: int) -> list[int]:
        if self._known[0] != epoch:
            plain = list(range(self._samples))
            self._known = (epoch, shuffled(self._samples, self._seed, epoch) if self._shuffle else plain)
        return self._known[1]
