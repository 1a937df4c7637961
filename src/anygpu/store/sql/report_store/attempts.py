"""Rows of the table `attempts`.

A transaction that stores a report reads the row once at its start and writes it once at its end.
"""

# ruff: noqa: S608 - statements are built from constants; every value is a parameter

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from pydantic_core import from_json, to_json
from sqlalchemy import Connection

from anygpu.errors import Conflict, NotFound
from anygpu.events.facts import Marks
from anygpu.store.main_metric import from_fields
from anygpu.store.reports import ReportState
from anygpu.store.search import storable_text
from anygpu.store.sql.engine.statements import execute, fetch_one, for_update
from anygpu.store.sql.jobs import is_deleted


@dataclass(slots=True)
class AttemptRecord:
    """A row of the table `attempts`. The fields have the order of the columns."""

    id: int
    job_id: str
    number: int
    acked: int = 0
    beats: int = 0
    last_seen_ms: int = 0
    phase: str = ""
    progress: str = "{}"
    telemetry: str = "{}"
    telemetry_seen: int = 0
    telemetry_stride: int = 1
    dropped_points: int = 0
    metric_points: int = 0
    metric_names: int = 0
    sorted_points: int = 0
    loose_batches: int = 0
    log_bytes: int = 0
    log_stored: int = 0
    log_head: int = 0
    log_kept_from: int = 0
    log_joined: int = 0
    loose_logs: int = 0
    pruned: bool = False
    log_lines: int | None = 0  # complete lines; None if the log was stored before lines were counted
    log_line_start: int | None = 0
    log_marked: int | None = 0
    log_marked_ms: int | None = 0
    main_metric: str | None = None

    def report_state(self) -> ReportState:
        return ReportState(
            acked=self.acked,
            beats=self.beats,
            marks=Marks(log_bytes=self.log_bytes, metric_points=self.metric_points),
            phase=self.phase,
            progress=from_text(self.progress),
            telemetry=from_text(self.telemetry),
            last_seen_ms=self.last_seen_ms,
            dropped_points=self.dropped_points,
            main_metric=from_fields(from_text(self.main_metric)) if self.main_metric else None,
        )


_NAMES = [field.name for field in fields(AttemptRecord)]
COLUMNS = ", ".join(_NAMES)
_MUTABLE = _NAMES[3:]
_UPDATE = f"UPDATE attempts SET {', '.join(f'{name} = ?' for name in _MUTABLE)} WHERE id = ?"
_INSERT = (
    f"INSERT INTO attempts ({', '.join(_NAMES[1:])}) VALUES ({', '.join('?' * len(_NAMES[1:]))})"
    " ON CONFLICT DO NOTHING"
)
_SELECT = f"SELECT {COLUMNS} FROM attempts WHERE job_id = ? AND number = ?"
_HEARTBEAT = (
    "UPDATE attempts SET beats = beats + 1, last_seen_ms = ? WHERE job_id = ? AND number = ?"
    f" RETURNING {COLUMNS}"
)


def find(connection: Connection, job_id: str, number: int) -> AttemptRecord | None:
    row = fetch_one(connection, _SELECT, (storable_text(job_id), number))
    return AttemptRecord(*row) if row else None


def lock(connection: Connection, job_id: str, number: int) -> AttemptRecord:
    """Return the row of an attempt, locked until the transaction ends.

    If the attempt has no row yet, a new row is inserted.
    """
    sql = _SELECT + for_update(connection)
    row = fetch_one(connection, sql, (job_id, number))
    if row is None:
        if is_deleted(connection, job_id):
            raise NotFound(f"Job {job_id} was deleted, so its report was not stored. Do not send it again.")
        new = AttemptRecord(0, job_id, number)
        execute(connection, _INSERT, [getattr(new, name) for name in _NAMES[1:]])
        row = fetch_one(connection, sql, (job_id, number))
    if row is None:
        raise Conflict(
            f"Attempt {number} of job {job_id} is being deleted, so its report was not stored. Do not send it again."
        )
    return AttemptRecord(*row)


def save(connection: Connection, attempt: AttemptRecord) -> None:
    execute(connection, _UPDATE, [*(getattr(attempt, name) for name in _MUTABLE), attempt.id])


def record_heartbeat(connection: Connection, job_id: str, number: int, at_ms: int) -> ReportState:
    row = fetch_one(connection, _HEARTBEAT, (at_ms, job_id, number))
    if row is None:
        lock(connection, job_id, number)
        row = fetch_one(connection, _HEARTBEAT, (at_ms, job_id, number))
    return AttemptRecord(*row).report_state() if row else ReportState()


def earlier_main_metric(connection: Connection, attempt: AttemptRecord) -> str | None:
    """Return the main metric of the newest earlier attempt that has one."""
    sql = (
        "SELECT main_metric FROM attempts WHERE job_id = ? AND number < ? AND main_metric IS NOT NULL"
        " ORDER BY number DESC LIMIT 1"
    )
    row = fetch_one(connection, sql, (attempt.job_id, attempt.number))
    return str(row[0]) if row else None


def to_text(data: Mapping[str, Any]) -> str:
    return to_json(data, inf_nan_mode="constants").decode()


def from_text(text: str) -> dict[str, Any]:
    data: dict[str, Any] = from_json(text) if text != "{}" else {}
    return data
