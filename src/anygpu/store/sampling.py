"""Reduce series of values that have too many points for a chart, and select the telemetry of a time."""

from collections.abc import Iterable, Mapping, Sequence
from math import inf, isnan
from typing import Any, NamedTuple, TypeVar

from anygpu.bounds import is_time

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


class Period(NamedTuple):
    """A time from `first` to `last`, both included, in Unix seconds."""

    first: float
    last: float

    @classmethod
    def between(cls, from_s: float | None, to_s: float | None) -> "Period | None":
        """Return the period between two times, of which one may be missing; None if both are."""
        if from_s is None and to_s is None:
            return None
        return cls(-inf if from_s is None else from_s, inf if to_s is None else to_s)

    def select(self, samples: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Return the telemetry samples of the period. A sample without a valid time is in none."""
        return [each for each in samples if is_time(each.get("at")) and self.first <= each["at"] <= self.last]
