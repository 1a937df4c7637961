"""Rows of the table `events`: insert events and read them."""

# ruff: noqa: S608 - statements are built from constants; every value is a parameter

from collections.abc import Sequence

from sqlalchemy import Connection

from anygpu.events.codec import decode_or_damaged, encode
from anygpu.events.fold import Recorded
from anygpu.events.types import DamagedEvent, Event
from anygpu.store.sql.engine.statements import Row, execute_many, fetch_all, fetch_one

MAX_TIME_MS = 253_402_300_799_999  # the end of the year 9999


def read_events(
    connection: Connection,
    where: str,
    values: Sequence[object],
    *,
    limit: int,
    newest_first: bool = False,
) -> list[Recorded]:
    """Return the events that match the SQL condition `where`, in order. A negative `limit` returns all.

    An event that cannot be read is returned as `DamagedEvent`.
    """
    sql = (
        "SELECT p.organisation, p.project, e.position, e.job_id, e.at_ms, e.kind, e.version, e.data"
        f" FROM events e JOIN projects p ON p.id = e.project_id WHERE {where} ORDER BY e.position"
        f"{' DESC' if newest_first else ''}"
    )
    if limit >= 0:
        sql, values = sql + " LIMIT ?", (*values, limit)
    return [_to_recorded(row) for row in fetch_all(connection, sql, values)]


def _to_recorded(row: Row) -> Recorded:
    organisation, project, position, job_id, at_ms, kind, version, data = row
    is_time = isinstance(at_ms, int) and 0 <= at_ms <= MAX_TIME_MS
    return Recorded(
        organisation=organisation,
        project=project,
        position=position,
        job_id=job_id,
        at_ms=at_ms if is_time else 0,
        event=decode_or_damaged(kind, version, data)
        if is_time
        else DamagedEvent(kind=str(kind), reason=f"its time {at_ms!r} is not valid"),
    )


def insert_events(
    connection: Connection,
    project: int,
    organisation: str,
    name: str,
    job_id: str,
    events: Sequence[Event],
    at_ms: int,
) -> tuple[Recorded, ...]:
    """Insert events at the next positions of the project.

    The update locks the project's row, so positions have no gaps and are committed in order.
    """
    row = fetch_one(
        connection, "UPDATE projects SET head = head + ? WHERE id = ? RETURNING head", (len(events), project)
    )
    first = int(row[0]) - len(events) + 1 if row else 1
    execute_many(
        connection,
        "INSERT INTO events (project_id, position, job_id, at_ms, kind, version, data)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        [
            (project, first + n, job_id, at_ms, type(event).__name__, event.VERSION, encode(event).decode())
            for n, event in enumerate(events)
        ],
    )
    return tuple(
        Recorded(
            organisation=organisation,
            project=name,
            position=first + n,
            job_id=job_id,
            at_ms=at_ms,
            event=event,
        )
        for n, event in enumerate(events)
    )
