"""Evidence in SQL."""

# ruff: noqa: S608 - statements are put together from our own words; every value is a parameter

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from sqlalchemy import Connection

from anygpu.errors import ReportGap
from anygpu.store.evidence import LOG_QUOTA_BYTES, AttemptRow, Batch, LogPart, Point, SeriesSummary
from anygpu.store.search import storable
from anygpu.store.sql import attempts, charts, logs, metrics, telemetry
from anygpu.store.sql.attempts import Attempt
from anygpu.store.sql.database import Database
from anygpu.store.sql.statements import marks, rows
from anygpu.store.sql.together import Together

T = TypeVar("T")
S = TypeVar("S")


class SqlEvidence:
    """An `Evidence`. What `ingest` has answered is on the disk."""

    def __init__(self, database: Database, *, log_quota_bytes: int = LOG_QUOTA_BYTES) -> None:
        self._database = database
        self._log_quota_bytes = log_quota_bytes
        self._rows = Together(self.attempts)

    async def ingest(self, job_id: str, attempt: int, batch: Batch, *, at_ms: int) -> AttemptRow:
        def work(connection: Connection) -> AttemptRow:
            state = attempts.locked(connection, job_id, attempt)
            if batch.first > state.acked + 1:
                raise ReportGap(expected=state.acked + 1)
            state.beats += 1
            state.last_seen_ms = at_ms
            if batch.last > state.acked:
                _store(connection, state, batch, self._log_quota_bytes)
            attempts.save(connection, state)
            return state.seen()

        return await self._database.write(work)

    async def beat(self, job_id: str, attempt: int, *, at_ms: int) -> AttemptRow:
        return await self._database.write(
            lambda connection: attempts.beat(connection, job_id, attempt, at_ms)
        )

    async def attempt(self, job_id: str, attempt: int) -> AttemptRow:
        return await self._rows.get((job_id, attempt))

    async def attempts(self, keys: Sequence[tuple[str, int]]) -> Mapping[tuple[str, int], AttemptRow]:
        def work(connection: Connection) -> dict[tuple[str, int], AttemptRow]:
            found: dict[tuple[str, int], AttemptRow] = dict.fromkeys(keys, AttemptRow())
            for start in range(0, len(keys), 500):
                part = keys[start : start + 500]
                jobs = list(dict.fromkeys(storable(job_id) for job_id, _ in part))
                numbers = list(dict.fromkeys(number for _, number in part))  # earlier ones stay unread
                sql = f"SELECT {attempts.COLUMNS} FROM attempts WHERE job_id IN ({marks(jobs)})"
                sql += f" AND number IN ({marks(numbers)})"
                states = (Attempt(*one) for one in rows(connection, sql, [*jobs, *numbers]))
                found |= {(s.job_id, s.number): s.seen() for s in states if (s.job_id, s.number) in found}
            return found

        return await self._database.read(work)

    async def points(
        self, job_id: str, attempt: int, *, after: int, limit: int, name: str | None = None
    ) -> tuple[Sequence[Point], int]:
        after = max(after, 0)

        def work(connection: Connection, state: Attempt) -> tuple[Sequence[Point], int]:
            if name is None:
                return charts.follow(connection, state, after, limit)
            return charts.follow_one(connection, state, name, after, limit)

        if limit < 1:
            return [], after
        return await self._of(job_id, attempt, work, ([], after))

    async def series(self, job_id: str, attempt: int) -> Sequence[SeriesSummary]:
        return await self._of(
            job_id, attempt, lambda connection, state: charts.summaries(connection, state.id), []
        )

    async def sample(self, job_id: str, attempt: int, name: str, *, most: int) -> Sequence[Point]:
        return await self._of(
            job_id, attempt, lambda connection, state: charts.sample(connection, state, name, most), []
        )

    async def telemetry(self, job_id: str, attempt: int, *, most: int) -> Sequence[Mapping[str, Any]]:
        return await self._of(
            job_id, attempt, lambda connection, state: telemetry.read(connection, state, most), []
        )

    async def log(self, job_id: str, attempt: int, *, offset: int, limit: int) -> LogPart:
        return await self._of(
            job_id,
            attempt,
            lambda connection, state: logs.read(connection, state, offset, limit),
            LogPart(start=0, data=b"", end=0),
        )

    async def _of(self, job_id: str, number: int, read: Callable[[Connection, Attempt], T], nothing: T) -> T:
        """What is read of an attempt, or nothing when nothing was heard of it."""

        def work(connection: Connection) -> T:
            state = attempts.find(connection, job_id, number)
            return nothing if state is None else read(connection, state)

        return await self._database.read(work)


def _store(connection: Connection, state: Attempt, batch: Batch, log_quota_bytes: int) -> None:
    """What is new in the batch: every frame after the highest one stored."""
    acked = state.acked
    data = b"".join(_new(batch.logs, acked))
    if data:
        logs.store(connection, state, data, log_quota_bytes)
    points = [point for frame in _new(batch.points, acked) for point in frame]
    if points:
        metrics.store(connection, state, points)
    telemetry.store(connection, state, list(_new(batch.telemetry, acked)))
    state.dropped_points += sum(_new(batch.dropped, acked))
    state.phase = next(reversed(list(_new(batch.phases, acked))), state.phase)
    if batch.progress is not None:
        state.progress = attempts.to_text(batch.progress)
    state.acked = batch.last
    state.pruned = False


def _new(frames: Sequence[tuple[int, S]], acked: int) -> Iterable[S]:
    return (content for seq, content in frames if seq > acked)
