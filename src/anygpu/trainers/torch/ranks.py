"""Connect the processes of a training with torch.distributed: NCCL between GPUs, gloo between CPUs.

After each step, the gradients of all processes are averaged (data parallel training). The weights are the same in all
processes, because all of them start with those of rank 0 and apply the same gradients.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import torch
from torch import distributed

from anygpu.trainers import ranks as processes
from anygpu.trainers.errors import BadConfig

T = TypeVar("T")
BUCKET_NUMBERS = 8_000_000  # gradients that are sent together
TIMEOUT = timedelta(hours=2)  # rank 0 may validate and save while the others wait


class TorchRanks:
    """The processes of a training that torch.distributed connects."""

    def __init__(self) -> None:
        self.rank = int(distributed.get_rank())
        self.size = int(distributed.get_world_size())
        # Decisions are exchanged between CPUs, so that they do not wait for a GPU.
        self._control = distributed.new_group(backend="gloo", timeout=TIMEOUT)

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def decide(self, choice: int) -> int:
        chosen = torch.tensor([choice])
        distributed.broadcast(chosen, 0, group=self._control)
        return int(chosen.item())

    def share(self, value: T) -> T:
        values = [value]
        distributed.broadcast_object_list(values, 0, group=self._control)
        return values[0]

    def gather(self, value: T) -> list[T]:
        values: list[Any] | None = [None] * self.size if self.is_first else None
        distributed.gather_object(value, values, 0, group=self._control)
        return values or []

    def wait(self) -> None:
        distributed.barrier(group=self._control)

    def close(self) -> None:
        if distributed.is_initialized():
            distributed.destroy_process_group()

    def mean(self, value: float) -> float:
        """Return the mean of a value over all ranks."""
        return self.means([value])[0]

    def means(self, values: Sequence[float]) -> list[float]:
        """Return the mean of each value over all ranks."""
        totals = torch.tensor(values, dtype=torch.float64)
        distributed.all_reduce(totals, group=self._control)
        return [float(total) / self.size for total in totals]

    def copy_from_first(self, tensors: Iterable[Any]) -> None:
        """Set the tensors of all ranks to those of rank 0."""
        for each in tensors:
            distributed.broadcast(each, 0)

    def average_gradients(self, parameters: Sequence[Any]) -> None:
        """Set the gradients of all ranks to their mean. A parameter that no rank uses keeps no gradient."""
        used = torch.tensor([each.grad is not None for each in parameters], dtype=torch.uint8)
        distributed.all_reduce(used, distributed.ReduceOp.MAX, group=self._control)
        gradients = [
            _gradient(each) for each, is_used in zip(parameters, used.tolist(), strict=True) if is_used
        ]
        for bucket in _buckets(gradients):
            self._average(bucket)

    def _average(self, gradients: Sequence[Any]) -> None:
        flat = torch.cat([each.flatten() for each in gradients])
        distributed.all_reduce(flat)
        flat /= self.size
        parts = flat.split([each.numel() for each in gradients])
        for gradient, mean in zip(gradients, parts, strict=True):
            gradient.copy_(mean.view_as(gradient))


_joined: TorchRanks | None = None


def current_ranks() -> TorchRanks | processes.SingleProcess:
    """Return the ranks that this process belongs to."""
    return processes.SINGLE if _joined is None else _joined


def join(device: str) -> TorchRanks:
    """Connect this process to the others that the launcher has started. `device` is the setting of the training."""
    global _joined  # a process belongs to one group, as in torch.distributed
    on_gpu = device != "cpu" and torch.cuda.is_available()
    if on_gpu:
        _choose_gpu()
    if not distributed.is_initialized():
        distributed.init_process_group("nccl" if on_gpu else "gloo", timeout=TIMEOUT)
    _joined = TorchRanks()
    return _joined


def leave_process_group() -> None:
    global _joined
    if _joined is not None:
        _joined.close()
        _joined = None


def _choose_gpu() -> None:
    number, count = int(os.environ.get("LOCAL_RANK") or 0), int(torch.cuda.device_count())
    if number >= count:
        raise BadConfig(
            f"this machine has {count} GPUs for the training, but more processes; use one process for each GPU"
        )
    torch.cuda.set_device(number)


def _gradient(parameter: Any) -> Any:
    if parameter.grad is None:
        parameter.grad = torch.zeros_like(parameter)
    return parameter.grad


def _buckets(gradients: Sequence[Any]) -> Iterable[list[Any]]:
    """Yield groups of gradients of one type, each with about BUCKET_NUMBERS numbers."""
    by_type: dict[Any, list[Any]] = {}
    for each in gradients:
        bucket = by_type.setdefault((each.dtype, each.device), [])
        bucket.append(each)
        if sum(one.numel() for one in bucket) >= BUCKET_NUMBERS:
            yield by_type.pop((each.dtype, each.device))
    yield from by_type.values()
