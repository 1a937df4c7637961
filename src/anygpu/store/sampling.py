"""Reduce series of values that have too many points for a chart."""

from collections.abc import Sequence
from math import isnan
from typing import TypeVar

Item = TypeVar("Item")


MIN_COUNT_WITH_NAN = 8  # with fewer points, all of them are needed for the extremes


def downsample_indices(values: Sequence[float], max_count: int) -> list[int]:
    """Return the indices of at most `max_count` values, for charts.

    The result has the first and the last value. The values in between are divided into ranges of equal length
    (buckets), and the result has the lowest and the highest value of each bucket, and its first NaN. With a
    `max_count` below 4 there are no buckets.
    """
    count = len(values)
    if count <= max_count:
        return list(range(count))
    if max_count < 2:
        return [count - 1][:max_count]
    chosen = {0, count - 1}
    keep_nan = max_count >= MIN_COUNT_WITH_NAN and any(map(isnan, values))
    buckets = (max_count - 2) // (3 if keep_nan else 2)
    inner = count - 2
    for bucket in range(buckets):
        start, end = 1 + bucket * inner // buckets, 1 + (bucket + 1) * inner // buckets
        chosen.update(extreme_indices(values, start, end))
        if keep_nan:
            chosen.update(first_nan_index(values, start, end))
    return sorted(chosen)


def extreme_indices(values: Sequence[float], start: int, end: int) -> tuple[int, ...]:
    """Return the indices of the lowest and the highest value from `start` to `end`.

    NaN is chosen only if there is no other value.
    """
    part = values[start:end]
    if not part:
        return ()
    if isnan(sum(part)):  # NaN, or infinities of both signs: the built-in min and max could be wrong
        numbers = [(value, index) for index, value in enumerate(part, start) if value == value]
        return (min(numbers)[1], max(numbers)[1]) if numbers else (start,)
    return start + part.index(min(part)), start + part.index(max(part))


def first_nan_index(values: Sequence[float], start: int, end: int) -> tuple[int, ...]:
    """Return the index of the first NaN from `start` to `end`; nothing if there is none."""
    return next(((index,) for index, value in enumerate(values[start:end], start) if value != value), ())


def thin_evenly(items: Sequence[Item], max_count: int) -> list[Item]:
    """Return at most `max_count` of the items, evenly spaced, including the last."""
    count = len(items)
    if count <= max_count or max_count < 1:
        return list(items[: max(max_count, 0)])
    return [items[(index + 1) * count // max_count - 1] for index in range(max_count)]
