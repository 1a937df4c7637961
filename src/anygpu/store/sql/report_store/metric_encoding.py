"""Encode columns of metric points as compact bytes.

Integers are replaced by differences. In each column, the first bytes of all numbers are stored together, then
all second bytes, and so on (byte planes). Steps mostly grow by a constant, and the high bytes of times and
values rarely change, so this gives long runs of equal bytes, which zlib compresses. A point of 32 bytes takes
about ten.
"""

import sys
import zlib
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import itemgetter, sub
from struct import Struct

from anygpu.store.sampling import extreme_indices, first_nan_index

SKETCH_GROUP = 64  # points per group; a sketch keeps the extremes of each group
MIN_COMPRESSED_BYTES = 128  # below this size compression saves nothing

_HEAD = Struct("<BI")  # compression, number of points
_RAW, _COMPRESSED = 0, 1


@dataclass(slots=True)
class PointColumns:
    """Metric points in columns.

    In a batch (points of many metrics as they arrived), `keys` are the numbers of the metrics. In a chunk (points of
    one metric), `keys` are the numbers of the points in arrival order.
    """

    keys: "array[int]"
    steps: "array[int]"
    times: "array[float]"
    values: "array[float]"

    @classmethod
    def empty(cls) -> "PointColumns":
        return cls(array("q"), array("q"), array("d"), array("d"))

    def __len__(self) -> int:
        return len(self.values)

    def extend(self, other: "PointColumns") -> None:
        self.keys.extend(other.keys)
        self.steps.extend(other.steps)
        self.times.extend(other.times)
        self.values.extend(other.values)

    def take(self, indices: Iterable[int]) -> "PointColumns":
        chosen = list(indices)
        if len(chosen) < 2:
            return self.slice(chosen[0], chosen[0] + 1) if chosen else PointColumns.empty()
        take = itemgetter(*chosen)
        return PointColumns(
            array("q", take(self.keys)),
            array("q", take(self.steps)),
            array("d", take(self.times)),
            array("d", take(self.values)),
        )

    def slice(self, start: int, end: int) -> "PointColumns":
        part = slice(start, end)
        return PointColumns(self.keys[part], self.steps[part], self.times[part], self.values[part])


def encode_points(points: PointColumns) -> bytes:
    ints = (_deltas(points.keys), _deltas(points.steps))
    body = b"".join(_to_byte_planes(column) for column in (*ints, points.times, points.values))
    if len(body) >= MIN_COMPRESSED_BYTES:
        packed = zlib.compress(body, 1)
        if len(packed) < len(body):
            return _HEAD.pack(_COMPRESSED, len(points)) + packed
    return _HEAD.pack(_RAW, len(points)) + body


def decode_points(data: bytes) -> PointColumns:
    how, count = _HEAD.unpack_from(data)
    body = data[_HEAD.size :]
    if how == _COMPRESSED:
        body = zlib.decompress(body)
    size = 8 * count
    keys, steps, times, values = (
        _from_byte_planes(body[n * size : (n + 1) * size], kind) for n, kind in enumerate("qqdd")
    )
    return PointColumns(array("q", accumulate(keys)), array("q", accumulate(steps)), times, values)


def sketch(points: PointColumns) -> PointColumns:
    """Return a reduced chunk of points, for charts.

    It has the first and the last point, and of each 64 points the lowest, the highest and the first NaN.
    """
    count = len(points)
    chosen = {0, count - 1}
    for start in range(0, count, SKETCH_GROUP):
        chosen.update(extreme_indices(points.values, start, start + SKETCH_GROUP))
        chosen.update(first_nan_index(points.values, start, start + SKETCH_GROUP))
    return points.take(sorted(chosen))


def _deltas(column: Sequence[int]) -> "array[int]":
    differences = array("q", column[:1])
    differences.extend(map(sub, column[1:], column))
    return differences


def _to_byte_planes(column: "array[int] | array[float]") -> bytes:
    raw = _little_endian(column).tobytes()
    return b"".join(raw[weight::8] for weight in range(8))


def _from_byte_planes(planes: bytes, kind: str) -> "array":  # type: ignore[type-arg]
    raw = bytearray(len(planes))
    count = len(planes) // 8
    for weight in range(8):
        raw[weight::8] = planes[weight * count : (weight + 1) * count]
    column = array(kind)
    column.frombytes(bytes(raw))
    return _little_endian(column)


def _little_endian(column: "array") -> "array":  # type: ignore[type-arg]
    """Convert a column between the machine's byte order and little-endian, in which columns are stored."""
    if sys.byteorder == "big":
        column = column[:]
        column.byteswap()
    return column
