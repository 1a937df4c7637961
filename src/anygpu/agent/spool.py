"""The spool.

What is to be told to the server, on disk first, so that a lost connection or a dead agent loses nothing.
"""

from __future__ import annotations

import os
import threading
from collections import deque

from anygpu.agent import frames
from anygpu.agent.home import write_json
from anygpu.agent.segment import SUFFIX, Segment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from anygpu.agent.frames import Frame

MEMORY_LIMIT_BYTES = 16 * 2**20
SERVER_AWAY = "the server was away and the spool was full"
DISK_FULL = "the disk of the spool was full"


class Spool:
    """Numbered frames, appended by one thread and sent by another. Metrics are never dropped."""

    def __init__(
        self, directory: str, limit_bytes: int, memory_limit_bytes: int = MEMORY_LIMIT_BYTES
    ) -> None:
        os.makedirs(directory, mode=0o700, exist_ok=True)
        self._directory = directory
        self._limit_bytes = limit_bytes
        self._memory_limit_bytes = memory_limit_bytes
        self._segment_bytes = max(65536, min(limit_bytes // 16, 16 * 2**20))
        self._lock = threading.Lock()
        self._segments: list[Segment] = []
        self._frames: deque[Frame] = deque()
        self._unwritten: list[Frame] = []
        self._sent = self._hollowed = 0
        self.acked = self.last_seq = 0
        self.log_bytes = self.metric_points = 0
        self.step: int | None = None
        self.disk_is_full = False
        self._load()

    def append_log(self, output: bytes) -> None:
        with self._lock:
            seq = self.last_seq + 1
            data = frames.encode_log(seq, output)
            self._append(frames.Frame(seq, len(data), len(output), 0, None), data)

    def append(self, kind: str, fields: dict[str, Any]) -> None:
        with self._lock:
            seq = self.last_seq + 1
            data = frames.encode(seq, kind, fields)
            self._append(frames.described({"seq": seq, **fields}, len(data)), data)

    def batch(self, limit_bytes: int) -> tuple[int, int, bytes]:
        """(first, last, bytes) of what is to be sent next; last < first when nothing is."""
        with self._lock:
            chosen: list[Frame] = []
            size = 0
            for frame in self._frames:
                if chosen and size + frame.size > limit_bytes:
                    break
                chosen.append(frame)
                size += frame.size
            if not chosen:
                return self.acked + 1, self.acked, b""
            self._sent = max(self._sent, chosen[-1].seq)
            return chosen[0].seq, chosen[-1].seq, _bytes_of(chosen)

    def blank(self, seq: int, why: str) -> None:
        """The first frame, which the server refuses for good, becomes a line in the log that says so."""
        with self._lock:
            frame = self._frames[0]
            if frame.seq != seq:
                return
            frame.data = frames.encode_log(seq, f"[anygpu] a report was refused: {why}\n".encode())
            self.log_bytes += len(frame.data) - frame.data.index(b"\n") - 1 - frame.log_bytes
            self.metric_points -= frame.points
            frame.size, frame.points = len(frame.data), 0
            frame.log_bytes = len(frame.data) - frame.data.index(b"\n") - 1

    def acknowledge(self, acked: int) -> None:
        with self._lock:
            while self._frames and self._frames[0].seq <= acked:
                self.acked = self._frames.popleft().seq
            while self._segments and self._is_delivered(self._segments[0]):
                self._remember_totals()
                self._segments.pop(0).remove()

    @property
    def is_empty(self) -> bool:
        return not self._frames

    @property
    def held_bytes(self) -> int:
        return sum(segment.size for segment in self._segments) + sum(frame.size for frame in self._unwritten)

    def _append(self, frame: Frame, data: bytes) -> None:
        frame.data = data
        self.last_seq = frame.seq
        self._count(frame)
        self._frames.append(frame)
        self._unwritten.append(frame)
        self._write_out()
        if self._unwritten:
            self._keep_memory_bounded()
        else:
            self._keep_disk_bounded()

    def _count(self, frame: Frame) -> None:
        self.log_bytes += frame.log_bytes
        self.metric_points += frame.points
        if frame.step is not None:
            self.step = frame.step if self.step is None else max(self.step, frame.step)

    def _write_out(self) -> None:
        written = 0
        try:
            for frame in self._unwritten:
                assert frame.data is not None
                self._open_segment(frame.seq).append(frame, frame.data)
                written += 1
            self.disk_is_full = False
        except OSError:
            # Training goes on without the disk: frames wait in memory, are sent from there, and are written later.
            self.disk_is_full = True
        del self._unwritten[:written]

    def _open_segment(self, seq: int) -> Segment:
        if not self._segments or self._segments[-1].size >= self._segment_bytes:
            self._segments.append(Segment(os.path.join(self._directory, f"{seq:012d}{SUFFIX}")))
        return self._segments[-1]

    def _is_delivered(self, segment: Segment) -> bool:
        done = not segment.frames or segment.frames[-1].seq <= self.acked
        return done and (segment is not self._segments[-1] or segment.size >= self._segment_bytes)

    def _keep_disk_bounded(self) -> None:
        while self.held_bytes > self._limit_bytes:
            segment = self._middle_segment()
            if segment is None:
                return
            before = sum(frame.log_bytes for frame in segment.frames)
            segment.drop_output(SERVER_AWAY)
            self.log_bytes += sum(frame.log_bytes for frame in segment.frames) - before

    def _middle_segment(self) -> Segment | None:
        """The oldest that was never sent, past the first quarter.

        How a run began and how it goes now say most.
        """
        kept = 0
        for segment in self._segments[:-1]:
            if segment.hollow or not segment.frames or segment.frames[0].seq <= self._sent:
                continue
            kept += segment.size
            if kept > self._limit_bytes // 4:
                return segment
        return None

    def _keep_memory_bounded(self) -> None:
        held = sum(frame.size for frame in self._unwritten)
        if held <= self._memory_limit_bytes:
            return
        loose = [frame for frame in self._unwritten if frame.seq > max(self._sent, self._hollowed)]
        if not loose:
            return
        self._hollowed = loose[-1].seq
        data = frames.hollowed(b"".join(frame.data or b"" for frame in loose), DISK_FULL)
        for frame, (header, start, _, end) in zip(loose, frames.decode(data)):
            self.log_bytes += int(header.get("n", 0)) - frame.log_bytes
            frame.data, frame.size, frame.log_bytes = data[start:end], end - start, int(header.get("n", 0))

    def _remember_totals(self) -> None:
        """Written before a segment goes, so that who delivers for a dead agent still knows the totals."""
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
        names = sorted(name for name in os.listdir(self._directory) if name.endswith(SUFFIX))
        for name in names:
            segment = Segment(os.path.join(self._directory, name))
            self._segments.append(segment)
            for frame in segment.load():
                if frame.seq > self.last_seq:
                    self.last_seq = frame.seq
                    self._frames.append(frame)
                    self._count(frame)

    def _load_totals(self) -> None:
        import json

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


def _bytes_of(chosen: list[Frame]) -> bytes:
    """Neighbours in one file are read with one call."""
    parts: list[bytes] = []
    run: list[Any] = [None, 0, 0]
    for frame in chosen:
        if frame.data is not None:
            parts.append(_read(run))
            parts.append(frame.data)
            run = [None, 0, 0]
        elif frame.segment is run[0] and frame.offset == run[1] + run[2]:
            run[2] += frame.size
        else:
            parts.append(_read(run))
            run = [frame.segment, frame.offset, frame.size]
    parts.append(_read(run))
    return b"".join(parts)


def _read(run: list[Any]) -> bytes:
    segment, offset, size = run
    return os.pread(segment.fd, size, offset) if segment is not None else b""
