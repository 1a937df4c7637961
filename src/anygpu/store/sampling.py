"""Fewer points that look the same: what every metrics store does to a series too long to draw."""

from collections.abc import Sequence
from math import isnan
from typing import TypeVar

T = TypeVar("T")


def pick(values: Sequence[float], most: int) -> list[int]:
    """Indices of at most `most` values: the first, the last, and (from four on) each bucket's extremes."""
    count = len(values)
    if count <= most:
        return list(range(count))
    if most < 2:
        return [count - 1][:most]
    chosen = {0, count - 1}
    buckets = (most - 2) // 2
    inner = count - 2
    for bucket in range(buckets):
        chosen.update(extremes(values, 1 + bucket * inner // buckets, 1 + (bucket + 1) * inner // buckets))
    return sorted(chosen)


def extremes(values: Sequence[float], start: int, end: int) -> tuple[int, ...]:
    """Where the lowest and the highest of a slice are. NaN counts only where there is nothing else."""
    part = values[start:end]
    if not part:
        return ()
    if isnan(sum(part)):  # a NaN, or infinities of both signs: the built-in min and max could be wrong
        numbers = [(value, index) for index, value in enumerate(part, start) if value == value]
        return (min(numbers)[1], max(numbers)[1]) if numbers else (start,)
    return start + part.index(min(part)), start + part.index(max(part))


def evenly(items: Sequence[T], most: int) -> list[T]:
    """At most `most` of the items, evenly spread, the last one included."""
    count = len(items)
    if count <= most or most < 1:
        return list(items[: max(most, 0)])
    return [items[(index + 1) * count // most - 1] for index in range(most)]
