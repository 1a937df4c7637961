"""The spool returns every frame once and in order, whatever dies or fills up."""

from __future__ import annotations

import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from anygpu.agent.link.spool import Spool, decode_frames, encode_points

BIG = 2**28


def frames(body: bytes) -> list[tuple[dict[str, Any], bytes]]:
    return [(header, body[payload:end]) for header, _, payload, end in decode_frames(body)]


def drained(spool: Spool, limit_bytes: int = 2**20) -> list[tuple[dict[str, Any], bytes]]:
    out: list[tuple[dict[str, Any], bytes]] = []
    while True:
        first, last, body = spool.batch(limit_bytes)
        if last < first:
            return out
        out += frames(body)
        spool.acknowledge(last)


@contextmanager
def files_no_larger_than(size: int) -> Iterator[None]:
    """As good as a full disk: the kernel refuses to make any file longer."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_frames_are_returned_unchanged_and_numbered_without_gaps(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path), BIG)
    spool.append_log(b"\xff\n{}")
    spool.append("metrics", {"points": [["loss", 7, 1.0, 0.5]]})
    found = drained(spool)
    assert [header["seq"] for header, _ in found] == [1, 2]
    assert found[0][1] == b"\xff\n{}"
    assert found[1][0]["points"] == [["loss", 7, 1.0, 0.5]]
    assert (spool.log_bytes, spool.metric_points, spool.step) == (4, 1, 7)


def test_a_batch_sent_but_not_acknowledged_is_sent_again(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path), BIG)
    spool.append_log(b"a")
    assert spool.batch(100) == spool.batch(100)


@given(st.lists(st.binary(max_size=300), max_size=40), st.integers(1, 2000), st.integers(0, 40))
@settings(max_examples=60, deadline=None)
def test_every_complete_frame_survives_the_death_of_the_agent(
    tmp_path_factory: Any, outputs: list[bytes], torn: int, acked: int
) -> None:
    place = tmp_path_factory.mktemp("spool")
    spool = Spool(str(place), BIG)
    for output in outputs:
        spool.append_log(output)
    spool.acknowledge(min(acked, len(outputs)))
    segment = next(place.glob("*.frames"), None)
    if segment is not None:
        segment.write_bytes(segment.read_bytes()[:-torn])
    again = Spool(str(place), BIG)
    found = [payload for _, payload in drained(again)]
    assert found == outputs[: len(found)]
    again.append_log(b"after")
    assert drained(again)[0][0]["seq"] == len(found) + 1


def test_delivered_segments_are_removed_and_their_totals_kept(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path), 2**20)
    for number in range(40):
        spool.append_log(b"x" * 10_000)
        spool.append("metrics", {"points": [["loss", number, 1.0, 0.5]]})
    assert len(list(tmp_path.glob("*.frames"))) > 3
    spool.acknowledge(60)
    assert len(list(tmp_path.glob("*.frames"))) <= 3
    again = Spool(str(tmp_path), 2**20)
    assert (again.last_seq, again.log_bytes, again.metric_points, again.step) == (80, 400_000, 40, 39)


def test_a_full_spool_drops_the_middle_of_the_output_but_no_metrics(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path), 2**20)
    for number in range(400):
        spool.append_log(b"%d " % number + b"x" * 10_000)
        spool.append("metrics", {"points": [["loss", number, 1.0, 0.5]]})
    assert spool.stored_bytes < 1.5 * 2**20
    found = drained(spool)
    assert [header["seq"] for header, _ in found] == list(range(1, 801))
    assert sum(len(header.get("points", [])) for header, _ in found) == 400
    output = b"".join(payload for _, payload in found)
    assert output.startswith(b"0 x")
    assert b"399 x" in output
    assert b"bytes of output were dropped here because the server could not be reached" in output
    assert spool.log_bytes == len(output)


def test_sent_frames_are_never_changed(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path), 2**20)
    for _ in range(60):
        spool.append_log(b"s" * 10_000)
    _, sent, before = spool.batch(2**20)
    for _ in range(400):
        spool.append_log(b"l" * 10_000)
    _, last, after = spool.batch(2**20)
    assert last > sent
    assert after.startswith(before)


def test_with_a_full_disk_frames_are_kept_in_memory_and_written_later(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path), BIG)
    spool.append_log(b"before")
    with files_no_larger_than(100):
        spool.append_log(b"y" * 1000)
        spool.append("metrics", {"points": [["loss", 1, 1.0, 0.5]]})
        assert spool.disk_is_full
        assert len(frames(spool.batch(2**20)[2])) == 3
    spool.append_log(b"after")
    assert not spool.disk_is_full
    again = Spool(str(tmp_path), BIG)
    assert [payload for _, payload in drained(again)] == [b"before", b"y" * 1000, b"", b"after"]


def test_with_a_full_disk_memory_is_limited_and_no_metric_is_lost(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path), BIG, memory_limit_bytes=100_000)
    with files_no_larger_than(50):
        for number in range(200):
            spool.append_log(b"z" * 5_000)
            spool.append("metrics", {"points": [["loss", number, 1.0, 0.5]]})
        assert spool.stored_bytes < 250_000
    found = drained(spool)
    assert sum(len(header.get("points", [])) for header, _ in found) == 200
    assert sum(len(payload) for _, payload in found) == spool.log_bytes
    assert any(b"dropped here because the disk was full" in payload for _, payload in found)


def test_nan_and_infinity_are_encoded_as_strings() -> None:
    points = [("a", 1, 0.0, float("nan")), ("b", 1, 0.0, float("inf")), ("c", 1, 0.0, -float("inf"))]
    assert [point[3] for point in encode_points(points)] == ["NaN", "Infinity", "-Infinity"]
    assert json.loads(json.dumps(encode_points(points), allow_nan=False))


def test_a_spool_without_reports_replaces_none(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path), BIG)
    spool.replace_refused(1, "405")
    assert spool.is_empty


@given(
    count=st.integers(1, 40), acked=st.integers(0, 40), expected=st.integers(1, 41), limit=st.integers(1, 400)
)
@settings(max_examples=60, deadline=None)
def test_a_server_that_lost_reports_gets_all_numbers_again(
    count: int, acked: int, expected: int, limit: int
) -> None:
    """What is still on disk is sent again; in place of the rest, reports without content are sent."""
    with TemporaryDirectory() as directory:
        spool = Spool(directory, BIG)
        for number in range(1, count + 1):
            spool.append_log(b"%d\n" % number)
            if number == count // 2:  # a file of reports that is removed when they are acknowledged
                spool._segments[-1].size = spool._segment_bytes
        spool.acknowledge(min(acked, count))
        expected = min(expected, count + 1)
        on_disk = {frame.seq for segment in spool._segments for frame in segment.frames}
        spool.continue_from(expected)
        sent = drained(spool, limit)
        assert [header["seq"] for header, _ in sent] == list(range(expected, count + 1))
        assert spool.is_empty
        for header, payload in sent:
            if header["seq"] in on_disk:
                assert payload == b"%d\n" % header["seq"]
            else:
                assert (b"are missing here" in payload) == (header["seq"] == expected)
