"""Columns of numbers as compact bytes: differences for integers, bytes of equal weight together, then zlib.

Steps and ordinals mostly grow by the same amount, and the high bytes of times and values hardly change, so both
become long runs of the same byte: a point of 32 bytes takes about ten.
"""

import sys
import zlib
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import itemgetter, sub
from struct import Struct

from anygpu.store.sampling import extremes

SKETCHED = 64  # points that share a lowest and a highest in a sketch
WORTH_PACKING = 128  # bytes; below, zlib's own header costs more than it saves

_HEAD = Struct("<BI")  # whether packed by zlib, how many points
_RAW, _PACKED = 0, 1


@dataclass(slots=True)
class Columns:
    """Points in columns. `keys` are series in a batch, and ordinals in a chunk."""

    keys: "array[int]"
    steps: "array[int]"
    times: "array[float]"
    values: "array[float]"

    @classmethod
    def empty(cls) -> "Columns":
        return cls(array("q"), array("q"), array("d"), array("d"))

    def __len__(self) -> int:
        return len(self.values)

    def extend(self, other: "Columns") -> None:
        self.keys.extend(other.keys)
        self.steps.extend(other.steps)
        self.times.extend(other.times)
        self.values.extend(other.values)

    def at(self, indices: Iterable[int]) -> "Columns":
        chosen = list(indices)
        if len(chosen) < 2:
            return self.slice(chosen[0], chosen[0] + 1) if chosen else Columns.empty()
        take = itemgetter(*chosen)
        return Columns(
            array("q", take(self.keys)),
            array("q", take(self.steps)),
            array("d", take(self.times)),
            array("d", take(self.values)),
        )

    def slice(self, start: int, end: int) -> "Columns":
        part = slice(start, end)
        return Columns(self.keys[part], self.steps[part], self.times[part], self.values[part])


def pack(points: Columns) -> bytes:
    ints = (_differences(points.keys), _differences(points.steps))
    body = b"".join(_planes(column) for column in (*ints, points.times, points.values))
    if len(body) >= WORTH_PACKING:
        packed = zlib.compress(body, 1)
        if len(packed) < len(body):
            return _HEAD.pack(_PACKED, len(points)) + packed
    return _HEAD.pack(_RAW, len(points)) + body


def unpack(data: bytes) -> Columns:
    how, count = _HEAD.unpack_from(data)
    body = data[_HEAD.size :]
    if how == _PACKED:
        body = zlib.decompress(body)
    size = 8 * count
    keys, steps, times, values = (
        _column(body[n * size : (n + 1) * size], kind) for n, kind in enumerate("qqdd")
    )
    return Columns(array("q", accumulate(keys)), array("q", accumulate(steps)), times, values)


def sketch(points: Columns) -> Columns:
    """The first, the last, and the extremes of every few points: enough to draw from, a thirtieth of the size."""
    count = len(points)
    chosen = {0, count - 1}
    for start in range(0, count, SKETCHED):
        chosen.update(extremes(points.values, start, start + SKETCHED))
    return points.at(sorted(chosen))


def _differences(column: Sequence[int]) -> "array[int]":
    differences = array("q", column[:1])
    differences.extend(map(sub, column[1:], column))
    return differences


def _planes(column: "array[int] | array[float]") -> bytes:
    raw = _little(column).tobytes()
    return b"".join(raw[weight::8] for weight in range(8))


def _column(planes: bytes, kind: str) -> "array":  # type: ignore[type-arg]
    raw = bytearray(len(planes))
    count = len(planes) // 8
    for weight in range(8):
        raw[weight::8] = planes[weight * count : (weight + 1) * count]
    column = array(kind)
    column.frombytes(bytes(raw))
    return _little(column)


def _little(column: "array") -> "array":  # type: ignore[type-arg]
    """Stored bytes mean the same on every machine."""
    if sys.byteorder == "big":
        column = column[:]
        column.byteswap()
    return column
