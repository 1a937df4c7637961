"""Encoding of metric points."""

import math
import struct
from array import array

from hypothesis import given
from hypothesis import strategies as st

from anygpu.store.sql.report_store.metric_encoding import PointColumns, decode_points, encode_points, sketch

steps = st.integers(-(2**62) + 1, 2**62 - 1)


numbers = st.floats(allow_nan=True, allow_infinity=True)


def columns(values: list[float]) -> PointColumns:
    count = len(values)
    return PointColumns(
        array("q", range(1, count + 1)),
        array("q", range(count)),
        array("d", map(float, range(count))),
        array("d", values),
    )


def bits(column: "array[float]") -> bytes:
    return struct.pack(f"<{len(column)}d", *column)


@given(st.lists(st.tuples(steps, steps, numbers, numbers), max_size=300))
def test_points_come_out_as_they_went_in(rows: list[tuple[int, int, float, float]]) -> None:
    sent = PointColumns(
        array("q", [row[0] for row in rows]),
        array("q", [row[1] for row in rows]),
        array("d", [row[2] for row in rows]),
        array("d", [row[3] for row in rows]),
    )
    found = decode_points(encode_points(sent))
    assert (found.keys, found.steps) == (sent.keys, sent.steps)
    assert bits(found.times) == bits(sent.times)
    assert bits(found.values) == bits(sent.values)


def test_a_usual_series_takes_less_than_half_its_size() -> None:
    sent = columns([math.sin(n / 50) for n in range(4096)])
    assert len(encode_points(sent)) < 4096 * 32 / 2


@given(st.lists(numbers, min_size=1, max_size=700))
def test_a_sketch_keeps_the_extremes_and_the_ends(values: list[float]) -> None:
    found = list(sketch(columns(values)).values)
    real = [value for value in values if value == value]
    assert repr(found[0]) == repr(values[0])
    assert repr(found[-1]) == repr(values[-1])
    if real:
        assert min(real) in found
        assert max(real) in found
