"""Parse the reports that agents send over HTTP (docs/reference/agent-protocol.md) into a `ReportBatch`.

A report consists of numbered frames: a line of JSON, and for log frames the log bytes after it. The bytes come from an
untrusted machine. A report that cannot be split into frames is rejected, because a correct agent never sends one. An
invalid value inside a frame is dropped and counted; if the report were rejected, the agent would send it again forever.
"""

import re
from collections.abc import Iterator, Mapping
from math import inf, nan
from typing import Any

from pydantic_core import from_json

from anygpu.bounds import is_metric_name, is_step, is_time, valid_progress
from anygpu.errors import InvalidReport, TooLarge
from anygpu.store.reports import MetricPoint, ReportBatch

MAX_BODY = 4 * 2**20  # agents send at most 1 MiB, unless a single frame is larger
MAX_SEQ = 2**53
MAX_JSON = 64 * 1024  # size of telemetry, which is stored unchanged
PHASES = ("preparing", "training", "finishing")

_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
_NAMED_NUMBERS = {"NaN": nan, "Infinity": inf, "-Infinity": -inf}


def parse_report(body: bytes, first: int, last: int) -> ReportBatch:
    """Parse a report that has exactly the frames (numbered entries) `first` to `last`, in order.

    Raises InvalidReport if the frames are not exactly these, and TooLarge if the report is too long.
    """
    if not 1 <= first <= last + 1 <= MAX_SEQ:
        raise InvalidReport(
            f"The parameters first={first} and last={last} are not a valid range of frame numbers. Send 1 <= "
            "first <= last + 1."
        )
    if len(body) > MAX_BODY:
        raise TooLarge(
            f"The report has {len(body)} bytes; the limit is {MAX_BODY}. Send fewer frames at once."
        )
    builder = _BatchBuilder()
    expected = first
    for head, data in _read_frames(body):
        seq = head.get("seq")
        if type(seq) is not int or seq != expected:
            raise InvalidReport(
                f"The report has frame {str(seq)[:40]} where frame {expected} must be. Send frames in order."
            )
        builder.add(expected, head, data)
        expected += 1
    if expected != last + 1:
        raise InvalidReport(
            f"The report ends with frame {expected - 1}, but must end with frame {last}. Send all frames."
        )
    return builder.build(first, last)


def _read_frames(body: bytes) -> Iterator[tuple[dict[str, Any], bytes]]:
    at = 0
    while at < len(body):
        end = body.find(b"\n", at)
        if end < 0:
            raise InvalidReport(f"The frame at byte {at} has no end of line. End its JSON with a newline.")
        head = _parse_header(body[at:end], at)
        size = head.get("n", 0)
        if type(size) is not int or not 0 <= size <= len(body) - end - 1:
            raise InvalidReport(
                f"The frame at byte {at} has n={str(size)[:40]}, but the body does not have that many bytes after it."
                " Set n to the number of bytes after the line."
            )
        yield head, body[end + 1 : end + 1 + size]
        at = end + 1 + size


def _parse_header(line: bytes, at: int) -> dict[str, Any]:
    try:
        head = _decode(line)
    except ValueError as error:
        raise InvalidReport(
            f"The frame at byte {at} is not valid JSON: {error}. Send a JSON object."
        ) from error
    if not isinstance(head, dict):
        raise InvalidReport(f"The frame at byte {at} is not a JSON object. Send a JSON object.")
    return head


def _decode(line: bytes) -> Any:
    """Decode a line of JSON. Unpaired surrogates become U+FFFD: older agents send them if the script prints them."""
    try:
        return from_json(line)
    except ValueError:
        if not _SURROGATE.search(line):
            raise
        return from_json(_SURROGATE.sub(rb"\\ufffd", line))


class _BatchBuilder:
    """Collects the contents of a report's frames (entries) by kind: log, metrics, progress, telemetry, phase.

    Frames of other kinds are ignored: a newer agent may send them.
    """

    def __init__(self) -> None:
        self.logs: list[tuple[int, bytes]] = []
        self.points: list[tuple[int, list[MetricPoint]]] = []
        self.progress: Mapping[str, Any] | None = None
        self.telemetry: list[tuple[int, Mapping[str, Any]]] = []
        self.phases: list[tuple[int, str]] = []
        self.dropped: list[tuple[int, int]] = []

    def add(self, seq: int, head: dict[str, Any], data: bytes) -> None:
        kind = head.get("kind")
        if kind == "log":
            self.logs.append((seq, data))
        elif kind == "metrics":
            self._add_points(seq, head.get("points"))
        elif kind == "progress":
            self.progress = valid_progress(head)
        elif kind == "telemetry":
            self._add_telemetry(seq, head)
        elif kind == "phase" and head.get("phase") in PHASES:
            self.phases.append((seq, head["phase"]))

    def _add_points(self, seq: int, given: Any) -> None:
        if not isinstance(given, list):
            self.dropped.append((seq, 1))
            return
        points = [point for one in given if (point := _parse_point(one)) is not None]
        if points:
            self.points.append((seq, points))
        if len(points) < len(given):
            self.dropped.append((seq, len(given) - len(points)))

    def _add_telemetry(self, seq: int, head: dict[str, Any]) -> None:
        sample = {key: value for key, value in head.items() if key not in ("seq", "kind", "n")}
        if len(repr(sample)) <= MAX_JSON:
            self.telemetry.append((seq, sample))

    def build(self, first: int, last: int) -> ReportBatch:
        return ReportBatch(
            first=first,
            last=last,
            logs=tuple(self.logs),
            points=tuple(self.points),
            progress=self.progress,
            telemetry=tuple(self.telemetry),
            phases=tuple(self.phases),
            dropped=tuple(self.dropped),
        )


def _parse_point(given: Any) -> MetricPoint | None:
    """Parse a metric point `[name, step, unix seconds, value]`. Return None if the point is invalid."""
    if type(given) is not list or len(given) != 4:
        return None
    name, step, at, value = given
    if not is_metric_name(name) or not is_step(step):
        return None
    at, value = _parse_number(at), _parse_number(value)
    if at is None or value is None or not is_time(at):
        return None
    return MetricPoint(name, step, at, value)


def _parse_number(given: Any) -> float | None:
    if type(given) is float:
        return given
    if type(given) is int:
        # Beyond the range of doubles: infinity, where float() would raise.
        return float(given) if -(2**1023) < given < 2**1023 else (inf if given > 0 else -inf)
    return _NAMED_NUMBERS.get(given) if type(given) is str else None
