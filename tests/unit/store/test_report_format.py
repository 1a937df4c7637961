import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anygpu.bounds import MAX_TIME_S
from anygpu.errors import AnygpuError, InvalidReport, TooLarge
from anygpu.store.report_format import MAX_BODY, parse_report
from anygpu.store.reports import MetricPoint, ReportBatch


def frame(seq: int, kind: str, data: bytes = b"", **fields: object) -> bytes:
    head = {"seq": seq, "kind": kind} | ({"n": len(data)} if data else {}) | fields
    return json.dumps(head).encode() + b"\n" + data


def metrics(*points: object) -> ReportBatch:
    return parse_report(frame(1, "metrics", points=list(points)), 1, 1)


def test_a_report_with_every_kind_of_frame_is_read() -> None:
    body = b"".join(
        [
            frame(7, "log", b'{"seq": 1}\n\xff\x00'),
            frame(8, "metrics", points=[["loss", 120, 1763240000.125, 0.25], ["acc", 120, 5, 1]]),
            frame(9, "progress", fraction=0.3, step=120, epoch=3, epochs=10, message="on"),
            frame(10, "telemetry", at=5.0, cpu=0.9, gpus=[{"use": 1}]),
            frame(11, "phase", phase="training", message="..."),
        ]
    )
    assert parse_report(body, 7, 11) == ReportBatch(
        first=7,
        last=11,
        logs=((7, b'{"seq": 1}\n\xff\x00'),),
        points=((8, [MetricPoint("loss", 120, 1763240000.125, 0.25), MetricPoint("acc", 120, 5.0, 1.0)]),),
        progress={"fraction": 0.3, "step": 120, "epoch": 3, "epochs": 10, "message": "on"},
        telemetry=((10, {"at": 5.0, "cpu": 0.9, "gpus": [{"use": 1}]}),),
        phases=((11, "training"),),
    )


def test_an_empty_report_is_an_empty_batch() -> None:
    assert parse_report(b"", 5, 4) == ReportBatch(first=5, last=4)


def test_spelled_and_plain_odd_numbers_are_values() -> None:
    batch = metrics(
        ["a", 1, 0, "NaN"], ["b", 1, 0, "Infinity"], ["c", 1, 0, "-Infinity"], ["d", 1, 0, 10**400]
    )
    ((_, points),) = batch.points
    assert math.isnan(points[0].value)
    assert [point.value for point in points[1:]] == [math.inf, -math.inf, math.inf]


@pytest.mark.parametrize(
    "bad",
    [
        None,
        "loss",
        [],
        ["loss", 1, 2],
        ["loss", 1, 2, 3, 4],
        [7, 1, 2, 3],
        ["", 1, 2, 3],
        ["x" * 201, 1, 2, 3],
        ["a\0b", 1, 2, 3],
        ["loss", 1.5, 2, 3],
        ["loss", True, 2, 3],
        ["loss", 2**62, 2, 3],
        ["loss", -(10**30), 2, 3],
        ["loss", 1, "now", 3],
        ["loss", 1, "NaN", 3],
        ["loss", 1, "Infinity", 3],
        ["loss", 1, 10**400, 3],
        ["loss", 1, 1e20, 3],
        ["loss", 1, -1.0, 3],
        ["loss", 1, 2, "high"],
        ["loss", 1, 2, None],
        ["loss", 1, 2, [3]],
    ],
)
def test_a_bad_point_is_dropped_and_counted_and_its_neighbours_stay(bad: object) -> None:
    batch = metrics(["ok", 1, 2.0, 3.0], bad, ["ok", 2, 2.0, 3.0])
    assert batch.points == ((1, [MetricPoint("ok", 1, 2.0, 3.0), MetricPoint("ok", 2, 2.0, 3.0)]),)
    assert batch.dropped == ((1, 1),)


@pytest.mark.parametrize("points", [None, 7, {"a": 1}, "x"])
def test_points_that_are_no_list_are_one_dropped_point(points: object) -> None:
    batch = parse_report(frame(1, "metrics", points=points), 1, 1)
    assert (batch.points, batch.dropped) == ((), ((1, 1),))


def test_progress_keeps_what_fits_and_only_what_is_known() -> None:
    body = frame(1, "progress", fraction="half", step=10**40, epoch=2, message="x", other=1)
    assert parse_report(body, 1, 1).progress == {"epoch": 2, "message": "x"}
    assert parse_report(b'{"seq": 1, "kind": "progress", "fraction": NaN}\n', 1, 1).progress == {}


@pytest.mark.parametrize(
    ("fraction", "stored"), [("1e308", 1.0), ("-0.5", 0.0), ("2", 1.0), ("1e999", None), ("-Infinity", None)]
)
def test_a_fraction_is_between_0_and_1(fraction: str, stored: float | None) -> None:
    body = f'{{"seq": 1, "kind": "progress", "fraction": {fraction}, "step": -1, "epochs": 1e308}}\n'.encode()
    assert parse_report(body, 1, 1).progress == ({} if stored is None else {"fraction": stored})


def test_a_kind_or_phase_of_a_newer_agent_is_passed_over() -> None:
    body = frame(1, "hologram", b"xyz") + frame(2, "phase", phase="dreaming") + frame(3, "log", b"on")
    assert parse_report(body, 1, 3) == ReportBatch(first=1, last=3, logs=((3, b"on"),))


def test_a_log_frame_without_bytes_is_empty() -> None:
    assert parse_report(b'{"seq": 1, "kind": "log"}\n', 1, 1).logs == ((1, b""),)


def test_telemetry_too_large_to_keep_is_left_out() -> None:
    assert parse_report(frame(1, "telemetry", cpu="x" * 70_000), 1, 1).telemetry == ()


@pytest.mark.parametrize(
    ("body", "first", "last"),
    [
        (b"no json\n", 1, 1),
        (b'{"seq": 1, "kind": "log"}', 1, 1),
        (b"[1]\n", 1, 1),
        (b"\n", 1, 1),
        (frame(1, "log", n=5), 1, 1),
        (frame(1, "log", n=-1), 1, 1),
        (frame(1, "log", n=10**40), 1, 1),
        (frame(1, "log", n="5"), 1, 1),
        (frame(1, "log", n=True), 1, 1),
        (frame(1, "log", b"abc", n=2), 1, 1),
        (frame(2, "log"), 1, 1),
        (frame(1, "log") + frame(3, "log"), 1, 2),
        (frame(1, "log") + frame(1, "log"), 1, 2),
        (frame(1, "log"), 1, 2),
        (frame(1, "log") + frame(2, "log"), 1, 1),
        (b'{"kind": "log"}\n', 1, 1),
        (b'{"seq": true, "kind": "log"}\n', 1, 1),
        (b'{"seq": 1.0, "kind": "log"}\n', 1, 1),
        (b'{"seq": "1", "kind": "log"}\n', 1, 1),
        (b"[" * 100_000 + b"\n", 1, 1),
        (b"", 0, 0),
        (b"", -4, -5),
        (b"", 3, 1),
        (b"", 10**30, 10**30),
    ],
)
def test_a_broken_report_is_refused(body: bytes, first: int, last: int) -> None:
    with pytest.raises(InvalidReport):
        parse_report(body, first, last)


def test_a_report_beyond_the_limit_is_too_large() -> None:
    with pytest.raises(TooLarge):
        parse_report(b" " * (MAX_BODY + 1), 1, 1)


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
values = st.recursive(
    scalars,
    lambda v: st.lists(v, max_size=5) | st.dictionaries(st.text(max_size=8), v, max_size=5),
    max_leaves=12,
)
heads = st.fixed_dictionaries(
    {},
    optional={
        "seq": st.sampled_from([1, 2, 3]) | values,
        "kind": st.sampled_from(["log", "metrics", "progress", "telemetry", "phase"]) | values,
        "n": st.integers(-3, 30) | values,
        "points": st.lists(st.lists(values, max_size=5), max_size=5) | values,
        "phase": st.just("training") | values,
        "fraction": values,
        "message": values,
    },
)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(heads, st.binary(max_size=20)), max_size=4), st.integers(-2, 4), st.integers(-2, 5))
def test_strange_frames_give_a_batch_or_our_error(
    frames: list[tuple[dict[str, object], bytes]], first: int, last: int
) -> None:
    body = b"".join(json.dumps(head).encode() + b"\n" + data for head, data in frames)
    assert_batch_or_error(body, first, last)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200), st.integers(), st.integers())
def test_any_bytes_give_a_batch_or_our_error(body: bytes, first: int, last: int) -> None:
    assert_batch_or_error(body, first, last)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.binary(max_size=50), min_size=1, max_size=6), st.data())
def test_a_damaged_report_gives_a_batch_or_our_error(texts: list[bytes], data: st.DataObject) -> None:
    body = bytearray(b"".join(frame(seq, "log", text) for seq, text in enumerate(texts, 1)))
    body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    assert_batch_or_error(bytes(body), 1, len(texts))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.binary(max_size=50), max_size=8), st.integers(1, 1000))
def test_log_bytes_come_out_as_they_went_in(texts: list[bytes], first: int) -> None:
    body = b"".join(frame(seq, "log", text) for seq, text in enumerate(texts, first))
    batch = parse_report(body, first, first + len(texts) - 1)
    assert [text for _, text in batch.logs] == texts


def assert_batch_or_error(body: bytes, first: int, last: int) -> None:
    try:
        batch = parse_report(body, first, last)
    except AnygpuError:
        return
    assert (batch.first, batch.last) == (first, last)
    for _, points in batch.points:
        assert all(isinstance(point.value, float) and abs(point.step) < 2**62 for point in points)
        assert all(0 <= point.at <= MAX_TIME_S for point in points)
