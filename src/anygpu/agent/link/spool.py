"""The spool: reports are written to disk before they are sent, so a lost connection or a dead agent loses no report."""

from __future__ import annotations

import errno
import json
import math
import os
import threading
from collections import deque

from anygpu.agent.files import write_atomic, write_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    Point = tuple[str, int, float, float]

_dumps = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


class SpoolFrame:
    """Where a frame (one report) is stored, and what it adds to the totals of the attempt.

    A frame is one line of JSON; for output, the raw bytes that the line announces follow. Frames are stored
    in the form in which they are sent.
    """

    __slots__ = ("data", "log_bytes", "offset", "points", "segment", "seq", "size", "step")

    def __init__(self, seq: int, size: int, log_bytes: int, points: int, step: int | None) -> None:
        self.seq = seq
        self.size = size
        self.log_bytes = log_bytes
        self.points = points
        self.step = step
        self.segment: SpoolSegment | None = None
        self.offset = 0
        self.data: bytes | None = None


def encode_log(seq: int, output: bytes) -> bytes:
    return b'{"seq":%d,"kind":"log","n":%d}\n%b' % (seq, len(output), output)


def encode_frame(seq: int, kind: str, fields: dict[str, Any]) -> bytes:
    return _dumps({"seq": seq, "kind": kind, **fields}).encode() + b"\n"


def encode_points(points: Sequence[Point]) -> list[list[Any]]:
    """Prepare metric points for JSON: NaN and infinities become strings."""
    return [[name, step, at, _encode_number(value)] for name, step, at, value in points]


def _encode_number(value: float) -> float | str:
    if math.isfinite(value):
        return value
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def decode_frames(data: bytes) -> Iterator[tuple[dict[str, Any], int, int, int]]:
    """Yield (header, start, payload start, end) of each complete frame (encoded report) in `data`.

    An incomplete last frame is skipped.
    """
    start = 0
    while True:
        line_end = data.find(b"\n", start)
        header = _parse_header(data[start:line_end]) if line_end >= 0 else None
        if header is None:
            return
        end = line_end + 1 + int(header.get("n", 0))
        if end > len(data):
            return
        yield header, start, line_end + 1, end
        start = end


def _parse_header(line: bytes) -> dict[str, Any] | None:
    try:
        header = json.loads(line)
    except ValueError:
        return None
    return header if isinstance(header, dict) and "seq" in header else None


def frame_from_header(header: dict[str, Any], size: int) -> SpoolFrame:
    """Build a `SpoolFrame` from the JSON header of an encoded report of `size` bytes."""
    points = header.get("points") or []
    steps = [point[1] for point in points]
    step = max(steps) if steps else header.get("step")
    return SpoolFrame(header["seq"], size, int(header.get("n", 0)), len(points), step)


def without_output(data: bytes, reason: str) -> bytes:
    """Return the frames (encoded reports) of `data` without the job's output.

    The first log frame then says how many bytes were dropped and why. The frames keep their sequence numbers, so the
    server sees no gap.
    """
    frames = list(decode_frames(data))
    dropped = sum(end - payload for header, _, payload, end in frames if header["kind"] == "log")
    note = f"\n[anygpu: {dropped} bytes of output were dropped here because {reason}]\n".encode()
    kept = []
    for header, start, _, end in frames:
        if header["kind"] != "log":
            kept.append(data[start:end])
        else:
            kept.append(encode_log(header["seq"], note))
            note = b""
    return b"".join(kept)


SEGMENT_SUFFIX = ".frames"


class SpoolSegment:
    """One of the files that hold the reports: frames (encoded reports) in the order of their sequence numbers."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.fd = _open_segment(path)
        self.size = os.fstat(self.fd).st_size
        self.frames: list[SpoolFrame] = []
        self.is_stripped = False

    def append(self, frame: SpoolFrame, data: bytes) -> None:
        """Append an encoded report. Raise OSError if the disk is full; the file then keeps its old content."""
        written = os.write(self.fd, data)
        if written != len(data):
            os.ftruncate(self.fd, self.size)
            raise OSError(errno.ENOSPC, "the disk is full")
        frame.segment, frame.offset, frame.data = self, self.size, None
        self.size += written
        self.frames.append(frame)

    def load(self) -> Iterator[SpoolFrame]:
        """Yield the encoded reports that an earlier agent wrote. An incomplete last one is cut off."""
        data = os.pread(self.fd, self.size, 0)
        end = 0
        for header, start, _, end in decode_frames(data):
            frame = frame_from_header(header, end - start)
            frame.segment, frame.offset = self, start
            self.frames.append(frame)
            yield frame
        os.ftruncate(self.fd, end)
        self.size = end

    def drop_output(self, reason: str) -> None:
        """Rewrite the file without the job's output. The reports keep their sequence numbers."""
        data = without_output(os.pread(self.fd, self.size, 0), reason)
        write_atomic(self.path, data)
        os.close(self.fd)
        self.fd, self.size, self.is_stripped = _open_segment(self.path), len(data), True
        for frame, (header, start, _, end) in zip(self.frames, decode_frames(data)):
            frame.offset, frame.size, frame.log_bytes = start, end - start, int(header.get("n", 0))

    def remove(self) -> None:
        os.close(self.fd)
        os.unlink(self.path)


MEMORY_LIMIT_BYTES = 16 * 2**20
SERVER_AWAY = "the server could not be reached, and the space for unsent output on this machine was full"
DISK_FULL = "the disk was full"
FILLER_BYTES, FILLERS_PER_BATCH = 64, 5000


def _open_segment(path: str) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


class Spool:
    """A queue of numbered frames (encoded reports) on disk. One thread appends frames, another sends them.

    When the spool is full, output is dropped. Metrics are never dropped.
    """

    def __init__(
        self, directory: str, limit_bytes: int, memory_limit_bytes: int = MEMORY_LIMIT_BYTES
    ) -> None:
        os.makedirs(directory, mode=0o700, exist_ok=True)
        self._directory = directory
        self._limit_bytes = limit_bytes
        self._memory_limit_bytes = memory_limit_bytes
        self._segment_bytes = max(65536, min(limit_bytes // 16, 16 * 2**20))
        self._lock = threading.Lock()
        self._segments: list[SpoolSegment] = []
        self._frames: deque[SpoolFrame] = deque()
        self._pending: list[SpoolFrame] = []
        # The numbers of reports that the server has lost and that are not stored here either.
        self._missing = range(0)
        self._missing_since = 0
        self._sent_seq = self._stripped_seq = 0
        self.acked = self.last_seq = 0
        self.log_bytes = self.metric_points = 0
        self.step: int | None = None
        self.disk_is_full = False
        self._load()

    def append_log(self, output: bytes) -> None:
        with self._lock:
            seq = self.last_seq + 1
            data = encode_log(seq, output)
            self._append(SpoolFrame(seq, len(data), len(output), 0, None), data)

    def append(self, kind: str, fields: dict[str, Any]) -> None:
        with self._lock:
            seq = self.last_seq + 1
            data = encode_frame(seq, kind, fields)
            self._append(frame_from_header({"seq": seq, **fields}, len(data)), data)

    def batch(self, limit_bytes: int) -> tuple[int, int, bytes]:
        """Return (first sequence number, last sequence number, bytes) of the next reports to send.

        If there are none, the last number is smaller than the first.
        """
        with self._lock:
            if self._missing:
                return self._filler_batch(limit_bytes)
            chosen: list[SpoolFrame] = []
            size = 0
            for frame in self._frames:
                if chosen and size + frame.size > limit_bytes:
                    break
                chosen.append(frame)
                size += frame.size
            if not chosen:
                return self.acked + 1, self.acked, b""
            self._sent_seq = max(self._sent_seq, chosen[-1].seq)
            return chosen[0].seq, chosen[-1].seq, _read_frames(chosen)

    def replace_refused(self, seq: int, reason: str) -> None:
        """Replace report number `seq` by a log line that says that the server refused it.

        Does nothing unless `seq` is the oldest report.
        """
        with self._lock:
            if not self._frames or self._frames[0].seq != seq:
                return
            frame = self._frames[0]
            frame.data = encode_log(
                seq,
                f"[anygpu] The server refused a part of this job's output or metrics: {reason}\n".encode(),
            )
            self.log_bytes += len(frame.data) - frame.data.index(b"\n") - 1 - frame.log_bytes
            self.metric_points -= frame.points
            frame.size, frame.points = len(frame.data), 0
            frame.log_bytes = len(frame.data) - frame.data.index(b"\n") - 1

    def continue_from(self, expected: int) -> None:
        """Handle that the server expects report number `expected` next.

        If this report was acknowledged, the server has lost it, for example because its database was restored from a
        backup. The reports that are still on disk are then sent again. In place of others, reports without content are
        sent, the first of which says what is missing: the server accepts no report before it has all earlier ones.
        """
        with self._lock:
            if 1 <= expected <= self.acked:
                stored = [frame for segment in self._segments for frame in segment.frames]
                again = [frame for frame in [*stored, *self._pending] if frame.seq >= expected]
                self._frames = deque(again)
                self._missing = range(expected, again[0].seq if again else self.last_seq + 1)
                self._missing_since = expected
                self.acked = expected - 1
        self.acknowledge(expected - 1)

    def acknowledge(self, acked: int) -> None:
        with self._lock:
            if self._missing and acked >= self._missing.start:
                self.acked = min(acked, self._missing.stop - 1)
                self._missing = self._missing[acked - self._missing.start + 1 :]
            while self._frames and self._frames[0].seq <= acked:
                self.acked = self._frames.popleft().seq
            while self._segments and self._is_delivered(self._segments[0]):
                self._save_totals()
                self._segments.pop(0).remove()

    @property
    def is_empty(self) -> bool:
        return not self._frames and not self._missing

    @property
    def stored_bytes(self) -> int:
        return sum(segment.size for segment in self._segments) + sum(frame.size for frame in self._pending)

    def _filler_batch(self, limit_bytes: int) -> tuple[int, int, bytes]:
        numbers = self._missing[: min(FILLERS_PER_BATCH, max(1, limit_bytes // FILLER_BYTES))]
        note = b"\n[anygpu: output and metrics are missing here, because the server has lost them]\n"
        fillers = [encode_log(seq, note if seq == self._missing_since else b"") for seq in numbers]
        return numbers[0], numbers[-1], b"".join(fillers)

    def _append(self, frame: SpoolFrame, data: bytes) -> None:
        frame.data = data
        self.last_seq = frame.seq
        self._count(frame)
        self._frames.append(frame)
        self._pending.append(frame)
        self._write_pending()
        if self._pending:
            self._limit_memory()
        else:
            self._limit_disk()

    def _count(self, frame: SpoolFrame) -> None:
        self.log_bytes += frame.log_bytes
        self.metric_points += frame.points
        if frame.step is not None:
            self.step = frame.step if self.step is None else max(self.step, frame.step)

    def _write_pending(self) -> None:
        written = 0
        try:
            for frame in self._pending:
                assert frame.data is not None
                self._open_segment(frame.seq).append(frame, frame.data)
                written += 1
            self.disk_is_full = False
        except OSError:
            # Training continues: frames are kept in memory, sent from there, and written later.
            self.disk_is_full = True
        del self._pending[:written]

    def _open_segment(self, seq: int) -> SpoolSegment:
        if not self._segments or self._segments[-1].size >= self._segment_bytes:
            self._segments.append(SpoolSegment(os.path.join(self._directory, f"{seq:012d}{SEGMENT_SUFFIX}")))
        return self._segments[-1]

    def _is_delivered(self, segment: SpoolSegment) -> bool:
        done = not segment.frames or segment.frames[-1].seq <= self.acked
        return done and (segment is not self._segments[-1] or segment.size >= self._segment_bytes)

    def _limit_disk(self) -> None:
        while self.stored_bytes > self._limit_bytes:
            segment = self._segment_to_strip()
            if segment is None:
                return
            before = sum(frame.log_bytes for frame in segment.frames)
            try:
                segment.drop_output(SERVER_AWAY)
            except OSError:
                self.disk_is_full = True
                return
            self.log_bytes += sum(frame.log_bytes for frame in segment.frames) - before

    def _segment_to_strip(self) -> SpoolSegment | None:
        """Return the file of reports from which to drop the job's output next; None if there is none.

        The beginning and the end of the output are the most useful to the user. So this is the oldest file that was
        never sent and that is not within the first quarter of the size limit.
        """
        kept = 0
        for segment in self._segments[:-1]:
            if segment.is_stripped or not segment.frames or segment.frames[0].seq <= self._sent_seq:
                continue
            kept += segment.size
            if kept > self._limit_bytes // 4:
                return segment
        return None

    def _limit_memory(self) -> None:
        held = sum(frame.size for frame in self._pending)
        if held <= self._memory_limit_bytes:
            return
        loose = [frame for frame in self._pending if frame.seq > max(self._sent_seq, self._stripped_seq)]
        if not loose:
            return
        self._stripped_seq = loose[-1].seq
        data = without_output(b"".join(frame.data or b"" for frame in loose), DISK_FULL)
        for frame, (header, start, _, end) in zip(loose, decode_frames(data)):
            self.log_bytes += int(header.get("n", 0)) - frame.log_bytes
            frame.data, frame.size, frame.log_bytes = data[start:end], end - start, int(header.get("n", 0))

    def _save_totals(self) -> None:
        """Store the attempt's totals (log bytes, metric points, step) before a file of reports is removed.

        An agent that later delivers the rest of the reports needs them for the end report.
        """
        totals = {
            "seq": self.last_seq - len(self._frames),
            "log_bytes": self.log_bytes - sum(frame.log_bytes for frame in self._frames),
            "metric_points": self.metric_points - sum(frame.points for frame in self._frames),
            "step": self.step,
        }
        try:
            write_json(os.path.join(self._directory, "delivered.json"), totals)
        except OSError:
            self.disk_is_full = True

    def _load(self) -> None:
        self._load_totals()
        names = sorted(name for name in os.listdir(self._directory) if name.endswith(SEGMENT_SUFFIX))
        for name in names:
            segment = SpoolSegment(os.path.join(self._directory, name))
            self._segments.append(segment)
            for frame in segment.load():
                if frame.seq > self.last_seq:
                    self.last_seq = frame.seq
                    self._frames.append(frame)
                    self._count(frame)

    def _load_totals(self) -> None:
        try:
            with open(os.path.join(self._directory, "delivered.json"), encoding="utf-8") as file:
                totals = json.load(file)
        except (FileNotFoundError, ValueError):
            return
        self.last_seq = self.acked = totals["seq"]
        self.log_bytes, self.metric_points, self.step = (
            totals["log_bytes"],
            totals["metric_points"],
            totals["step"],
        )


def _read_frames(chosen: list[SpoolFrame]) -> bytes:
    """Return the bytes of the `chosen` reports. Adjacent reports of one file are read with one call."""
    parts: list[bytes] = []
    run: list[Any] = [None, 0, 0]
    for frame in chosen:
        if frame.data is not None:
            parts.append(_read_range(run))
            parts.append(frame.data)
            run = [None, 0, 0]
        elif frame.segment is run[0] and frame.offset == run[1] + run[2]:
            run[2] += frame.size
        else:
            parts.append(_read_range(run))
            run = [frame.segment, frame.offset, frame.size]
    parts.append(_read_range(run))
    return b"".join(parts)


def _read_range(run: list[Any]) -> bytes:
    segment, offset, size = run
    return os.pread(segment.fd, size, offset) if segment is not None else b""
