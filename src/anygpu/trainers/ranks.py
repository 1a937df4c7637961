"""The processes of a training. Each has a number, its rank; rank 0 reports, saves and exports.

A training on one GPU has one process. On several GPUs of a machine it has one for each. Importing this module does not
import a framework: `anygpu.trainers.torch.ranks` has the processes that torch connects.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from anygpu.trainers.context import At, Context

T = TypeVar("T")


class Ranks(Protocol):
    """The processes of a training, from the view of one of them. Each method must be called in all of them."""

    rank: int
    size: int

    @property
    def is_first(self) -> bool: ...

    def decide(self, choice: int) -> int:
        """Return the choice of rank 0."""
        ...

    def share(self, value: T) -> T:
        """Return the value of rank 0."""
        ...

    def gather(self, value: T) -> list[T]:
        """Return the values of all ranks in rank 0, and an empty list in the others."""
        ...

    def wait(self) -> None:
        """Wait until every rank has called this method."""
        ...

    def close(self) -> None: ...


class SingleProcess:
    """The only process of a training."""

    rank = 0
    size = 1
    is_first = True

    def decide(self, choice: int) -> int:
        return choice

    def share(self, value: T) -> T:
        return value

    def gather(self, value: T) -> list[T]:
        return [value]

    def wait(self) -> None:
        """Do nothing: there is no other process."""

    def close(self) -> None:
        """Do nothing: nothing is open."""


SINGLE = SingleProcess()


def rank_from_environment() -> int:
    """Return the rank of this process, as a launcher such as torchrun sets it; 0 without a launcher."""
    return _number("RANK", 0)


def size_from_environment() -> int:
    """Return the number of processes, as a launcher such as torchrun sets it; 1 without a launcher."""
    return _number("WORLD_SIZE", 1)


def _number(name: str, default: int) -> int:
    text = os.environ.get(name, "")
    return int(text) if text.isdecimal() else default


def first_then_others(ranks: Ranks, act: Callable[[], T]) -> T:
    """Run `act` in rank 0, and then in the others, so that they find the files that rank 0 has prepared."""
    if not ranks.is_first:
        ranks.wait()
        return act()
    result = act()
    ranks.wait()
    return result


class SilentContext:
    """The context of all ranks but the first: nothing is reported or stored. A checkpoint is restored in each rank."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def report(self, metrics: Mapping[str, float], at: At) -> None:
        """Do nothing: rank 0 reports."""

    def checkpoint(self, path: Path, *, step: int, wait: bool = False) -> None:
        """Do nothing: rank 0 saves."""

    def restore(self) -> Path | None:
        return self._context.restore()

    def should_stop(self) -> bool:
        return False

    def workplace(self, output_dir: Path) -> Path:
        return self._context.workplace(output_dir)

    def best(self, path: Path) -> None:
        """Do nothing: rank 0 saves."""

    def artifact(self, path: Path) -> None:
        """Do nothing: rank 0 publishes."""


def part_of(items: Sequence[T], ranks: Ranks) -> Sequence[T]:
    """Return the part of a batch that this rank processes. All parts have the same size."""
    size = len(items) // ranks.size
    return items[ranks.rank * size : (ranks.rank + 1) * size]
