"""The agents' reports in SQL: ingest, heartbeats, telemetry, and the queries that read them."""

# ruff: noqa: S608 - statements are built from constants; every value is a parameter

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from sqlalchemy import Connection

from anygpu.errors import ReportGap
from anygpu.store.logs.page import LinePage, read_page
from anygpu.store.logs.search import LogPattern, SearchPortion, search_after, search_before
from anygpu.store.main_metric import from_fields, to_fields, update_main_metric
from anygpu.store.reports import (
    LOG_QUOTA_BYTES,
    LogPart,
    MetricPoint,
    MetricSamples,
    ReportBatch,
    ReportState,
    SeriesSummary,
)
from anygpu.store.sampling import Period, thin_evenly
from anygpu.store.search import storable_text
from anygpu.store.sql import deletion
from anygpu.store.sql.engine.database import Database
from anygpu.store.sql.engine.statements import execute, fetch_all, placeholders
from anygpu.store.sql.report_store import attempts, log_lines, logs, metric_queries, metric_samples, metrics
from anygpu.store.sql.report_store.attempts import AttemptRecord, from_text, to_text
from anygpu.store.sql.report_store.log_lines import SqlLog
from anygpu.store.sql.report_store.metric_samples import StepRange

Key = TypeVar("Key")
Value = TypeVar("Value")
T = TypeVar("T")
S = TypeVar("S")

MAX_TELEMETRY_SAMPLES = 2000  # beyond, every second sample is deleted


class SqlReports:
    """A `Reports` store in SQL. When `ingest` returns, the reports are safely on disk."""

    def __init__(self, database: Database, *, log_quota_bytes: int = LOG_QUOTA_BYTES) -> None:
        self._database = database
        self._log_quota_bytes = log_quota_bytes
        self._state_reader = BatchedReader(self.states)

    async def ingest(self, job_id: str, attempt: int, batch: ReportBatch, *, at_ms: int) -> ReportState:
        def work(connection: Connection) -> ReportState:
            state = attempts.lock(connection, job_id, attempt)
            if batch.first > state.acked + 1:
                raise ReportGap(expected=state.acked + 1)
            state.beats += 1
            state.last_seen_ms = at_ms
            if batch.last > state.acked:
                _store_new_frames(connection, state, batch, self._log_quota_bytes, at_ms)
            attempts.save(connection, state)
            return state.report_state()

        return await self._database.write(work)

    async def record_heartbeat(self, job_id: str, attempt: int, *, at_ms: int) -> ReportState:
        return await self._database.write(
            lambda connection: attempts.record_heartbeat(connection, job_id, attempt, at_ms)
        )

    async def state(self, job_id: str, attempt: int) -> ReportState:
        return await self._state_reader.get((job_id, attempt))

    async def states(self, keys: Sequence[tuple[str, int]]) -> Mapping[tuple[str, int], ReportState]:
        def work(connection: Connection) -> dict[tuple[str, int], ReportState]:
            states: dict[tuple[str, int], ReportState] = dict.fromkeys(keys, ReportState())
            for start in range(0, len(keys), 500):
                part = keys[start : start + 500]
                jobs = list(dict.fromkeys(storable_text(job_id) for job_id, _ in part))
                numbers = list(dict.fromkeys(number for _, number in part))  # do not read other attempts
                sql = f"SELECT {attempts.COLUMNS} FROM attempts WHERE job_id IN ({placeholders(jobs)})"
                sql += f" AND number IN ({placeholders(numbers)})"
                records = (AttemptRecord(*one) for one in fetch_all(connection, sql, [*jobs, *numbers]))
                states |= {
                    (r.job_id, r.number): r.report_state() for r in records if (r.job_id, r.number) in states
                }
            return states

        return await self._database.read(work)

    async def points(
        self, job_id: str, attempt: int, *, after: int, limit: int, name: str | None = None
    ) -> tuple[Sequence[MetricPoint], int]:
        after = max(after, 0)

        def work(connection: Connection, state: AttemptRecord) -> tuple[Sequence[MetricPoint], int]:
            if name is None:
                return metric_queries.points_after(connection, state, after, limit)
            return metric_queries.series_points_after(connection, state, name, after, limit)

        if limit < 1:
            return [], after
        return await self._read_attempt(job_id, attempt, work, ([], after))

    async def series(self, job_id: str, attempt: int) -> Sequence[SeriesSummary]:
        return await self._read_attempt(
            job_id,
            attempt,
            lambda connection, state: metric_queries.series_summaries(connection, state.id),
            [],
        )

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
        steps = StepRange.between(from_step, to_step)
        return await self._read_attempt(
            job_id,
            attempt,
            lambda connection, state: metric_samples.sample(connection, state, names, max_count, steps),
            MetricSamples(),
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
        period = Period.between(from_s, to_s)
        return await self._read_attempt(
            job_id,
            attempt,
            lambda connection, state: _read_telemetry(connection, state, max_count, period),
            [],
        )

    async def log(self, job_id: str, attempt: int, *, offset: int, limit: int) -> LogPart:
        return await self._read_attempt(
            job_id,
            attempt,
            lambda connection, state: logs.read(connection, state, offset, limit),
            LogPart(start=0, data=b"", end=0),
        )

    async def log_lines(self, job_id: str, attempt: int, *, first: int, count: int) -> LinePage:
        return await self._read_log(job_id, attempt, lambda log: read_page(log, first, count), LinePage())

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
        def search(log: SqlLog) -> SearchPortion:
            if before is not None:
                return search_before(log, pattern, before, limit)
            return search_after(log, pattern, after or 0, limit)

        return await self._read_log(job_id, attempt, search, SearchPortion())

    async def _read_log(self, job_id: str, attempt: int, read: Callable[[SqlLog], T], nothing: T) -> T:
        """Return the result of `read` for a log, or `nothing` if the attempt never reported."""

        def work(connection: Connection, state: AttemptRecord) -> T | None:
            return None if state.log_lines is None else read(SqlLog(connection, state))

        def count_and_read(connection: Connection) -> T:
            state = attempts.lock(connection, job_id, attempt)
            log_lines.ensure_counted(connection, state)
            attempts.save(connection, state)
            return read(SqlLog(connection, state))

        found: T | None = await self._read_attempt(job_id, attempt, work, nothing)
        return await self._database.write(count_and_read) if found is None else found

    async def delete(self, job_id: str) -> None:
        await deletion.purge_reports(self._database, job_id)

    async def _read_attempt(
        self, job_id: str, number: int, read: Callable[[Connection, AttemptRecord], T], nothing: T
    ) -> T:
        """Return the result of `read` for the row of an attempt, or `nothing` if the attempt never reported."""

        def work(connection: Connection) -> T:
            state = attempts.find(connection, job_id, number)
            return nothing if state is None else read(connection, state)

        return await self._database.read(work)


def _store_new_frames(
    connection: Connection, state: AttemptRecord, batch: ReportBatch, log_quota_bytes: int, at_ms: int
) -> None:
    """Store those frames (numbered reports) of the batch that are not stored yet."""
    acked = state.acked
    data = b"".join(_after(batch.logs, acked))
    if data:
        log_lines.count(connection, state, data, at_ms)
        logs.store(connection, state, data, log_quota_bytes)
    points = [point for frame in _after(batch.points, acked) for point in frame]
    if points:
        metrics.store(connection, state, points)
        _update_main_metric(connection, state, points)
    _store_telemetry(connection, state, list(_after(batch.telemetry, acked)))
    state.dropped_points += sum(_after(batch.dropped, acked))
    state.phase = next(reversed(list(_after(batch.phases, acked))), state.phase)
    if batch.progress is not None:
        state.progress = attempts.to_text(batch.progress)
    state.acked = batch.last
    state.pruned = False


def _update_main_metric(connection: Connection, state: AttemptRecord, points: Sequence[MetricPoint]) -> None:
    text = state.main_metric
    if text is None and state.number > 1:
        text = attempts.earlier_main_metric(connection, state)
    metric = update_main_metric(from_fields(from_text(text)) if text else None, points)
    state.main_metric = to_text(to_fields(metric)) if metric else None


def _after(frames: Sequence[tuple[int, S]], acked: int) -> Iterable[S]:
    return (content for seq, content in frames if seq > acked)


def _store_telemetry(
    connection: Connection, attempt: AttemptRecord, samples: Sequence[Mapping[str, Any]]
) -> None:
    for sample in samples:
        attempt.telemetry = to_text(sample)
        attempt.telemetry_seen += 1
        if attempt.telemetry_seen % attempt.telemetry_stride == 0:
            sql = "INSERT INTO telemetry (attempt_id, number, data) VALUES (?, ?, ?)"
            execute(connection, sql, (attempt.id, attempt.telemetry_seen, attempt.telemetry))
    if attempt.telemetry_seen // attempt.telemetry_stride > MAX_TELEMETRY_SAMPLES:
        attempt.telemetry_stride *= 2
        sql = "DELETE FROM telemetry WHERE attempt_id = ? AND number % ? <> 0"
        execute(connection, sql, (attempt.id, attempt.telemetry_stride))


def _read_telemetry(
    connection: Connection, attempt: AttemptRecord, max_count: int, period: Period | None
) -> list[Mapping[str, Any]]:
    sql = "SELECT number, data FROM telemetry WHERE attempt_id = ? ORDER BY number"
    rows = fetch_all(connection, sql, (attempt.id,))
    texts = [data for _, data in rows]
    if attempt.telemetry_seen and (not rows or rows[-1][0] != attempt.telemetry_seen):
        texts.append(attempt.telemetry)
    if period is None:
        return [from_text(text) for text in thin_evenly(texts, max_count)]
    return thin_evenly(period.select(map(from_text, texts)), max_count)


class BatchedReader(Generic[Key, Value]):
    """Combines all reads that callers request at about the same time into one query."""

    def __init__(self, read: Callable[[Sequence[Key]], Awaitable[Mapping[Key, Value]]]) -> None:
        self._read = read
        self._pending: dict[Key, None] = {}  # keys for the next read
        self._next_read: asyncio.Task[Mapping[Key, Value]] | None = None

    async def get(self, key: Key) -> Value:
        self._pending[key] = None
        if self._next_read is None or self._next_read.done():  # done: cancelled before it started
            self._next_read = asyncio.create_task(self._read_all())
        # Shielded: a cancelled caller must not cancel the read for the others.
        return (await asyncio.shield(self._next_read))[key]

    async def _read_all(self) -> Mapping[Key, Value]:
        keys, self._pending, self._next_read = [*self._pending], {}, None
        return await self._read(keys)
