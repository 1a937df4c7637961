"""Data loaders whose batches are the same with any number of processes, and from any step on."""

from __future__ import annotations

from typing import Any

import torch

from anygpu.trainers.torch.sampling import Batches


def loader(dataset: Any, batches: Any, workers: int, device: torch.device) -> Any:
    return torch.utils.data.DataLoader(
        dataset,
        batch_sampler=batches,
        num_workers=workers,
        persistent_workers=workers > 0,
        pin_memory=device.type == "cuda",
        worker_init_fn=one_thread,
        # Starting an iteration draws a number; drawn from torch's own chance it would differ after a resume.
        generator=torch.Generator(),
    )


def one_thread(_worker: int) -> None:
    torch.set_num_threads(1)


class InOrder(Batches):
    """Every sample once, as it lies: for validation."""

    def __iter__(self) -> Any:
        for step in range(self.steps_per_epoch):
            yield [(0, index) for index in self._batch(range(self.samples), step)]
