"""A frame: one line of JSON, and the raw bytes it announces.

The spool holds frames, and the wire carries them as they lie.
"""

from __future__ import annotations

import json
import math

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    Point = tuple[str, int, float, float]

_dumps = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


class Frame:
    """Where a frame lies, and what it adds to the totals the server is told at the end."""

    __slots__ = ("data", "log_bytes", "offset", "points", "segment", "seq", "size", "step")

    def __init__(self, seq: int, size: int, log_bytes: int, points: int, step: int | None) -> None:
        self.seq = seq
        self.size = size
        self.log_bytes = log_bytes
        self.points = points
        self.step = step
        self.segment: Any = None
        self.offset = 0
        self.data: bytes | None = None


def encode_log(seq: int, output: bytes) -> bytes:
    return b'{"seq":%d,"kind":"log","n":%d}\n%b' % (seq, len(output), output)


def encode(seq: int, kind: str, fields: dict[str, Any]) -> bytes:
    return _dumps({"seq": seq, "kind": kind, **fields}).encode() + b"\n"


def wire_points(points: Sequence[Point]) -> list[list[Any]]:
    """JSON has no NaN and no infinity, and a diverging loss must still arrive."""
    return [[name, step, at, _wire_number(value)] for name, step, at, value in points]


def _wire_number(value: float) -> float | str:
    if math.isfinite(value):
        return value
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def decode(data: bytes) -> Iterator[tuple[dict[str, Any], int, int, int]]:
    """(header, start, payload start, end) of each whole frame; what is torn at the end is left out."""
    start = 0
    while True:
        line_end = data.find(b"\n", start)
        header = _header(data[start:line_end]) if line_end >= 0 else None
        if header is None:
            return
        end = line_end + 1 + int(header.get("n", 0))
        if end > len(data):
            return
        yield header, start, line_end + 1, end
        start = end


def _header(line: bytes) -> dict[str, Any] | None:
    try:
        header = json.loads(line)
    except ValueError:
        return None
    return header if isinstance(header, dict) and "seq" in header else None


def described(header: dict[str, Any], size: int) -> Frame:
    """The Frame that a header read back from disk stands for."""
    points = header.get("points") or []
    steps = [point[1] for point in points]
    step = max(steps) if steps else header.get("step")
    return Frame(header["seq"], size, int(header.get("n", 0)), len(points), step)


def hollowed(data: bytes, reason: str) -> bytes:
    """The same frames without their output; the first says how much was dropped.

    Numbers stay, so no gap appears.
    """
    frames = list(decode(data))
    dropped = sum(end - payload for header, _, payload, end in frames if header["kind"] == "log")
    note = f"\n[anygpu: {dropped} bytes of output were dropped here: {reason}]\n".encode()
    kept = []
    for header, start, _, end in frames:
        if header["kind"] != "log":
            kept.append(data[start:end])
        else:
            kept.append(encode_log(header["seq"], note))
            note = b""
    return b"".join(kept)
