"""Count the lines of logs when bytes arrive, and read logs by line."""

from sqlalchemy import Connection

from anygpu.store.logs.index import LineCount, LineMark
from anygpu.store.sql.engine.statements import execute_many, fetch_all, fetch_one
from anygpu.store.sql.report_store import logs
from anygpu.store.sql.report_store.attempts import AttemptRecord

COUNT_BYTES = 2**20  # read at once to count the lines of an old log

_INSERT = (
    "INSERT INTO log_marks (attempt_id, line, start, at_ms) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (attempt_id, line) DO UPDATE SET at_ms = excluded.at_ms"
)
_SELECT = "SELECT line, start, at_ms FROM log_marks WHERE attempt_id = ? AND "


def count(connection: Connection, attempt: AttemptRecord, data: bytes, at_ms: int) -> None:
    """Count the lines of `data`, which is about to be stored, and store the new marks."""
    ensure_counted(connection, attempt)
    counted = line_count(attempt)
    _save(connection, attempt, counted, counted.add(data, at_ms))


def ensure_counted(connection: Connection, attempt: AttemptRecord) -> None:
    """Count the lines of a log that was stored before lines were counted. Its marks have no times."""
    if attempt.log_lines is not None:
        return
    counted, marks = LineCount(), [LineMark(1, 0, 0)]
    while (part := logs.read(connection, attempt, counted.size, COUNT_BYTES)).data:
        # Dropped bytes count as no lines: how many they were is not known.
        counted.size = part.start
        marks += counted.add(part.data, 0)
    counted.size = attempt.log_bytes
    _save(connection, attempt, counted, marks)


def _save(connection: Connection, attempt: AttemptRecord, counted: LineCount, marks: list[LineMark]) -> None:
    if marks:
        execute_many(connection, _INSERT, [(attempt.id, *mark) for mark in marks])
    attempt.log_lines, attempt.log_line_start = counted.lines, counted.line_start
    attempt.log_marked, attempt.log_marked_ms = counted.marked, counted.marked_ms


def line_count(attempt: AttemptRecord) -> LineCount:
    return LineCount(
        size=attempt.log_bytes,
        lines=attempt.log_lines or 0,
        line_start=attempt.log_line_start or 0,
        marked=attempt.log_marked or 0,
        marked_ms=attempt.log_marked_ms or 0,
    )


class SqlLog:
    """The log of an attempt, in one transaction."""

    def __init__(self, connection: Connection, attempt: AttemptRecord) -> None:
        self._connection, self._attempt = connection, attempt
        self.count = line_count(attempt)

    def read(self, offset: int, limit: int) -> tuple[int, bytes]:
        part = logs.read(self._connection, self._attempt, offset, limit)
        return part.start, part.data

    def marks(self, first: int, last: int) -> list[LineMark]:
        before = self._find("line <= ? ORDER BY line DESC", first) or LineMark(1, 0, 0)
        sql = _SELECT + "line > ? AND line <= ? ORDER BY line"
        between = fetch_all(self._connection, sql, (self._attempt.id, before.line, last))
        after = self._find("line > ? ORDER BY line", max(before.line, last))
        return [before, *(LineMark(*row) for row in between), *([after] if after else [])]

    def mark_before(self, offset: int) -> LineMark | None:
        return self._find("start <= ? ORDER BY line DESC", offset)

    def mark_after(self, offset: int) -> LineMark | None:
        return self._find("start >= ? ORDER BY line", offset)

    def _find(self, condition: str, value: int) -> LineMark | None:
        row = fetch_one(self._connection, f"{_SELECT}{condition} LIMIT 1", (self._attempt.id, value))
        return LineMark(*row) if row else None
