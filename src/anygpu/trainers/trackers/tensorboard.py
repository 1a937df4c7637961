"""Write TensorBoard event files (protocol buffers in checksummed records) without the tensorboard package."""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from anygpu.trainers.trackers.tracking import TrackedPoint, TrackedRun

_DOUBLE, _VARINT, _BYTES, _FLOAT = 1, 0, 2, 5  # wire types
SESSION_STARTS = b"\x08\x01"


class TensorBoard:
    """TensorBoard tracker.

    A resumed training writes a new file, which starts with a "session start" event. TensorBoard then discards
    the steps after this event that the interrupted training had already written.
    """

    name = "tensorboard"

    def __init__(self, directory: str, run: TrackedRun) -> None:
        self._directory = Path(directory or run.output / "tensorboard")
        self._file: BinaryIO | None = None
        self._path: Path | None = None

    def start(self) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        name = f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}.{os.getpid()}.0"
        self._file = (self._directory / name).open("ab")
        self._path = self._directory / name
        self._write(_event(time.time(), 0, 3, b"brain.Event:2"))

    def log(self, points: Sequence[TrackedPoint]) -> None:
        assert self._file is not None
        if points and self._file.tell() < 100:  # only the header so far; the first step is now known
            self._write(_event(points[0].at_s, points[0].step, 7, SESSION_STARTS))
        for point in points:
            values = b"".join(_field(1, _value(name, number)) for name, number in point.metrics.items())
            self._write(_event(point.at_s, point.step, 5, values))
        self._file.flush()

    def end(self, status: str) -> None:
        assert self._file is not None
        self._file.close()

    def files(self) -> Sequence[Path]:
        return () if self._path is None else (self._path,)

    def _write(self, event: bytes) -> None:
        assert self._file is not None
        size = struct.pack("<Q", len(event))
        self._file.write(size + _checksum(size) + event + _checksum(event))


def _event(at_s: float, step: int, kind: int, content: bytes) -> bytes:
    head = bytes([1 << 3 | _DOUBLE]) + struct.pack("<d", at_s) + bytes([2 << 3 | _VARINT]) + _varint(step)
    return head + _field(kind, content)


def _value(name: str, number: float) -> bytes:
    return _field(1, name.encode()) + bytes([2 << 3 | _FLOAT]) + struct.pack("<f", _within_float(number))


def _within_float(number: float) -> float:
    """Return the value; infinity if it is outside the range of a 32-bit float."""
    limit = 3.4028234e38
    return (
        number if -limit <= number <= limit or number != number else float("inf") * (1 if number > 0 else -1)
    )


def _field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | _BYTES]) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def _table() -> tuple[int, ...]:
    entries = []
    for byte in range(256):
        entry = byte
        for _ in range(8):
            entry = entry >> 1 ^ (0x82F63B78 if entry & 1 else 0)
        entries.append(entry)
    return tuple(entries)


_CRC = _table()


def crc32c(content: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in content:
        crc = _CRC[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def _checksum(content: bytes) -> bytes:
    crc = crc32c(content)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)
