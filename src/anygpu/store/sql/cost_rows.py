"""Rows of the table `costs`: written in the transactions that record the use of machines."""

# ruff: noqa: S608 - statements are built from constants; every value is a parameter

import json
from collections.abc import Iterable, Sequence
from dataclasses import fields

from sqlalchemy import Connection

from anygpu.events.costs import CostEntry, released_entries
from anygpu.events.fold import Recorded
from anygpu.events.types import AttemptReleased, JobEdited, JobFailed, OrphanEnded, RecoveryStarted
from anygpu.events.view import JobView
from anygpu.store.search import storable_text
from anygpu.store.sql.engine.statements import Row, execute, execute_many

COLUMNS = tuple(field.name for field in fields(CostEntry))
_KEY = ("job_id", "attempt", "part")
_UPSERT = (
    f"INSERT INTO costs ({', '.join(COLUMNS)}, project_id) VALUES ({', '.join('?' * (len(COLUMNS) + 1))})"
    f" ON CONFLICT ({', '.join(_KEY)}) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in COLUMNS if name not in _KEY)
)


def record_costs(
    connection: Connection, project_id: int, view: JobView, recorded: Sequence[Recorded]
) -> None:
    """Write the rows of the attempts whose recorded cost, lost work or failure these events change.

    The rows are computed from the state of the job, so writing them again changes nothing.
    """
    numbers = {number for each in recorded if (number := _affected_attempt(view, each)) is not None}
    entries = [entry for number in sorted(numbers) for entry in _entries(view, number)]
    if entries:
        execute_many(connection, _UPSERT, [(*to_row(entry), project_id) for entry in entries])
    if any(isinstance(each.event, JobEdited) for each in recorded):
        sql = "UPDATE costs SET tags = ? WHERE job_id = ?"
        execute(connection, sql, (json.dumps(view.tags), view.id))


def _affected_attempt(view: JobView, recorded: Recorded) -> int | None:
    event = recorded.event
    if isinstance(event, JobFailed):
        return len(view.attempts)
    return event.attempt if isinstance(event, AttemptReleased | OrphanEnded | RecoveryStarted) else None


def _entries(view: JobView, number: int) -> Iterable[CostEntry]:
    return released_entries(view, view.attempts[number - 1]) if 1 <= number <= len(view.attempts) else ()


def to_row(entry: CostEntry) -> Row:
    values = {name: getattr(entry, name) for name in COLUMNS}
    values["person"], values["backend"] = storable_text(entry.person), storable_text(entry.backend)
    values["gpu_kind"] = storable_text(entry.gpu_kind)
    values["interruptible"], values["interrupted"] = int(entry.interruptible), int(entry.interrupted)
    values["tags"] = json.dumps(entry.tags)
    return tuple(values[name] for name in COLUMNS)


def from_row(row: Row) -> CostEntry:
    values = dict(zip(COLUMNS, row, strict=True))
    values["interruptible"], values["interrupted"] = (
        bool(values["interruptible"]),
        bool(values["interrupted"]),
    )
    values["tags"] = tuple(json.loads(values["tags"]))
    return CostEntry(**values)
