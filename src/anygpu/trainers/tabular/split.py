"""Which rows are trained on, which measure every epoch, and which only the end: by chance, class by class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Rows:
    train: Any  # numbers of rows, as arrays
    val: Any
    test: Any


def split(
    target: Sequence[Any], is_classes: bool, *, val_fraction: float, test_fraction: float, seed: int
) -> Rows:
    """Every class is in the rows to train on, and as often elsewhere as it is in all of them."""
    import numpy

    chance = numpy.random.default_rng([seed, 0])
    order = chance.permutation(len(target))
    labels = numpy.asarray(target)[order] if is_classes else numpy.zeros(len(target))
    parts: tuple[list[Any], list[Any], list[Any]] = ([], [], [])
    for label in numpy.unique(labels):
        own = order[labels == label]
        val, test = (_share(len(own), fraction) for fraction in (val_fraction, test_fraction))
        for part, rows in zip(parts, (own[val + test :], own[:val], own[val : val + test]), strict=True):
            part.append(rows)
    return Rows(*(numpy.sort(numpy.concatenate(part)) for part in parts))


def _share(rows: int, fraction: float) -> int:
    """At least one where there are enough; none of a class that has two rows."""
    return 0 if not fraction or rows < 3 else max(1, round(rows * fraction))
