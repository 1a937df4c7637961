"""Agents' reports (logs, metrics, telemetry) in lists. Behaves like the SQL store."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import nan
from typing import Any

from anygpu.bounds import MAX_INTEGER, MAX_METRIC_NAMES, MAX_NAME_LENGTH
from anygpu.errors import ReportGap
from anygpu.events.facts import Marks
from anygpu.store.logs.index import LineCount, LineMark
from anygpu.store.logs.page import LinePage, read_page
from anygpu.store.logs.search import LogPattern, SearchPortion, search_after, search_before
from anygpu.store.main_metric import update_main_metric
from anygpu.store.reports import (
    LOG_QUOTA_BYTES,
    LogPart,
    MainMetric,
    MetricPoint,
    MetricSamples,
    ReportBatch,
    ReportState,
    SeriesSummary,
    drop_order,
)
from anygpu.store.sampling import Period, downsample_indices, thin_evenly


@dataclass(slots=True)
class _Log:
    """A log.

    If it exceeds its quota, the first and the newest bytes are kept and those in between are dropped.
    """

    head: bytearray = field(default_factory=bytearray)
    tail: bytearray = field(default_factory=bytearray)
    end: int = 0
    count: LineCount = field(default_factory=LineCount)
    marked: list[LineMark] = field(default_factory=list)

    @property
    def stored_bytes(self) -> int:
        return len(self.head) + len(self.tail)

    def add_marks(self, marks: list[LineMark]) -> None:
        new = {mark.line for mark in marks}
        self.marked = [*(mark for mark in self.marked if mark.line not in new), *marks]

    def read(self, offset: int, limit: int) -> tuple[int, bytes]:
        part = _part(self, offset, limit)
        return part.start, part.data

    def marks(self, first: int, last: int) -> list[LineMark]:
        before = next((mark for mark in reversed(self.marked) if mark.line <= first), LineMark(1, 0, 0))
        later = [mark for mark in self.marked if mark.line > before.line]
        between = [mark for mark in later if mark.line <= last]
        return [before, *between, *later[len(between) : len(between) + 1]]

    def mark_before(self, offset: int) -> LineMark | None:
        return next((mark for mark in reversed(self.marked) if mark.offset <= offset), None)

    def mark_after(self, offset: int) -> LineMark | None:
        return next((mark for mark in self.marked if mark.offset >= offset), None)


@dataclass(slots=True)
class _Attempt:
    acked: int = 0
    beats: int = 0
    phase: str = ""
    progress: Mapping[str, Any] = field(default_factory=dict)
    last_seen_ms: int = 0
    dropped: int = 0
    log: _Log = field(default_factory=_Log)
    points: list[MetricPoint] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    main_metric: MainMetric | None = None
    telemetry: list[Mapping[str, Any]] = field(default_factory=list)


class MemoryReports:
    """An in-memory `Reports`."""

    def __init__(self, *, log_quota_bytes: int = LOG_QUOTA_BYTES) -> None:
        self._log_quota_bytes = log_quota_bytes
        self._jobs: dict[str, dict[int, _Attempt]] = {}

    async def ingest(self, job_id: str, attempt: int, batch: ReportBatch, *, at_ms: int) -> ReportState:
        row = self._find(job_id, attempt)
        acked = row.acked if row else 0
        if batch.first > acked + 1:
            raise ReportGap(expected=acked + 1)
        row = self._touch(job_id, attempt, at_ms)
        if batch.last > acked:
            self._store(job_id, row, batch, at_ms)
        return _row(row)

    async def record_heartbeat(self, job_id: str, attempt: int, *, at_ms: int) -> ReportState:
        return _row(self._touch(job_id, attempt, at_ms))

    async def state(self, job_id: str, attempt: int) -> ReportState:
        row = self._find(job_id, attempt)
        return _row(row) if row else ReportState()

    async def states(self, keys: Sequence[tuple[str, int]]) -> Mapping[tuple[str, int], ReportState]:
        return {key: await self.state(*key) for key in keys}

    async def points(
        self, job_id: str, attempt: int, *, after: int, limit: int, name: str | None = None
    ) -> tuple[Sequence[MetricPoint], int]:
        stored = self._stored_points(job_id, attempt)
        after = max(after, 0)
        rest = enumerate(islice(stored, after, None), after + 1)
        page = list(islice(((i, p) for i, p in rest if name is None or p.name == name), limit))
        cursor = page[-1][0] if page and len(page) == limit else max(after, len(stored))
        return [point for _, point in page], cursor if limit > 0 else after

    async def series(self, job_id: str, attempt: int) -> Sequence[SeriesSummary]:
        by_name: dict[str, list[MetricPoint]] = {}
        for point in self._stored_points(job_id, attempt):
            by_name.setdefault(point.name, []).append(point)
        return [_summary(name, points) for name, points in sorted(by_name.items())]

    async def samples(
        self,
        job_id: str,
        attempt: int,
        names: Sequence[str],
        *,
        max_count: int,
        from_step: int | None = None,
        to_step: int | None = None,
    ) -> MetricSamples:
        low = -MAX_INTEGER if from_step is None else from_step
        high = MAX_INTEGER if to_step is None else to_step
        stored = self._stored_points(job_id, attempt)
        by_name: dict[str, list[MetricPoint]] = {}
        for point in stored:
            if point.name in names:
                by_name.setdefault(point.name, []).append(point)
        ranges = {name: [p for p in points if low <= p.step <= high] for name, points in by_name.items()}
        return MetricSamples(
            points={name: _downsample(points, max_count) for name, points in ranges.items()},
            counts={name: len(points) for name, points in by_name.items()},
            cursor=len(stored),
        )

    async def telemetry(
        self,
        job_id: str,
        attempt: int,
        *,
        max_count: int,
        from_s: float | None = None,
        to_s: float | None = None,
    ) -> Sequence[Mapping[str, Any]]:
        row = self._find(job_id, attempt)
        samples = row.telemetry if row else []
        period = Period.between(from_s, to_s)
        return thin_evenly(samples if period is None else period.select(samples), max_count)

    async def log(self, job_id: str, attempt: int, *, offset: int, limit: int) -> LogPart:
        row = self._find(job_id, attempt)
        return _part(row.log if row else _Log(), offset, limit)

    async def log_lines(self, job_id: str, attempt: int, *, first: int, count: int) -> LinePage:
        row = self._find(job_id, attempt)
        return read_page(row.log if row else _Log(), first, count)

    async def search_log(
        self,
        job_id: str,
        attempt: int,
        pattern: LogPattern,
        *,
        after: int | None,
        before: int | None,
        limit: int,
    ) -> SearchPortion:
        row = self._find(job_id, attempt)
        log = row.log if row else _Log()
        if before is not None:
            return search_before(log, pattern, before, limit)
        return search_after(log, pattern, after or 0, limit)

    async def delete(self, job_id: str) -> None:
        self._jobs.pop(job_id, None)

    def _find(self, job_id: str, attempt: int) -> _Attempt | None:
        return self._jobs.get(job_id, {}).get(attempt)

    def _stored_points(self, job_id: str, attempt: int) -> list[MetricPoint]:
        row = self._find(job_id, attempt)
        return row.points if row else []

    def _touch(self, job_id: str, attempt: int, at_ms: int) -> _Attempt:
        row = self._jobs.setdefault(job_id, {}).setdefault(attempt, _Attempt())
        row.beats += 1
        row.last_seen_ms = at_ms
        return row

    def _store(self, job_id: str, row: _Attempt, batch: ReportBatch, at_ms: int) -> None:
        if data := b"".join(data for seq, data in batch.logs if seq > row.acked):
            row.log.add_marks(row.log.count.add(data, at_ms))
            self._append_log(job_id, row, data)
        for seq, points in batch.points:
            if seq > row.acked:
                _append_points(row, points)
                row.main_metric = update_main_metric(
                    row.main_metric or self._earlier_main_metric(job_id, row), points
                )
        row.dropped += sum(count for seq, count in batch.dropped if seq > row.acked)
        row.telemetry += [sample for seq, sample in batch.telemetry if seq > row.acked]
        row.phase = next((phase for seq, phase in reversed(batch.phases) if seq > row.acked), row.phase)
        row.progress = batch.progress if batch.progress is not None else row.progress
        row.acked = batch.last

    def _earlier_main_metric(self, job_id: str, row: _Attempt) -> MainMetric | None:
        found: MainMetric | None = None
        for _, earlier in sorted(self._jobs[job_id].items()):
            if earlier is row:
                break
            found = earlier.main_metric or found
        return found

    def _append_log(self, job_id: str, row: _Attempt, data: bytes) -> None:
        logs = {number: attempt.log for number, attempt in self._jobs[job_id].items()}
        room = max(0, self._log_quota_bytes // 4 - sum(log.end for log in logs.values()))
        row.log.head += data[:room]
        row.log.tail += data[room:]
        row.log.end += len(data)
        ordered = sorted(logs, key=lambda number: drop_order(number, len(logs[number].tail)))
        stored_bytes = sum(log.stored_bytes for log in logs.values())
        _drop([logs[number] for number in ordered], stored_bytes - self._log_quota_bytes)


def _drop(logs: Iterable[_Log], excess: int) -> None:
    for log in logs:
        if excess <= 0:
            return
        gone = min(excess, len(log.tail))
        del log.tail[:gone]
        kept = [mark for mark in log.marked if mark.offset < len(log.head)]
        log.marked = kept + [mark for mark in log.marked if mark.offset >= log.end - len(log.tail)]
        excess -= gone


def _append_points(row: _Attempt, points: Sequence[MetricPoint]) -> None:
    for point in points:
        fits = len(point.name) <= MAX_NAME_LENGTH
        if fits and (point.name in row.names or len(row.names) < MAX_METRIC_NAMES):
            row.names.add(point.name)
            row.points.append(point)
        else:
            row.dropped += 1


def _row(row: _Attempt) -> ReportState:
    return ReportState(
        acked=row.acked,
        beats=row.beats,
        marks=Marks(log_bytes=row.log.end, metric_points=len(row.points)),
        phase=row.phase,
        progress=row.progress,
        telemetry=row.telemetry[-1] if row.telemetry else {},
        last_seen_ms=row.last_seen_ms,
        dropped_points=row.dropped,
        main_metric=row.main_metric,
    )


def _summary(name: str, points: Sequence[MetricPoint]) -> SeriesSummary:
    numbers = [point.value for point in points if point.value == point.value]
    return SeriesSummary(
        name=name,
        count=len(points),
        min=min(numbers, default=nan),
        max=max(numbers, default=nan),
        last=points[-1].value,
        last_step=points[-1].step,
    )


def _downsample(points: Sequence[MetricPoint], max_count: int) -> list[MetricPoint]:
    return [points[index] for index in downsample_indices([point.value for point in points], max_count)]


def _part(log: _Log, offset: int, limit: int) -> LogPart:
    start = max(0, log.end + offset) if offset < 0 else min(offset, log.end)
    tail_start = log.end - len(log.tail)
    if start < len(log.head):
        return LogPart(start=start, data=bytes(log.head[start : start + limit]), end=log.end)
    start = max(start, tail_start)
    from_tail = start - tail_start
    return LogPart(start=start, data=bytes(log.tail[from_tail : from_tail + limit]), end=log.end)
