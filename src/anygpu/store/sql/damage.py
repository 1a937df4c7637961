"""Read jobs whose rows in the database are damaged.

A damaged state (view) of a job is computed again from its events. If an event is damaged too, the result has only what
is still known. Its field `damaged` contains the reason, and the journal refuses to append events to such a job.
"""

from dataclasses import replace
from typing import Any

from sqlalchemy import Connection

from anygpu.events.codec import DECODE_ERRORS, decode_view
from anygpu.events.facts import Phase, Status
from anygpu.events.fold import Recorded, step
from anygpu.events.transitions import InvalidEvent
from anygpu.events.types import DamagedEvent
from anygpu.events.view import JobView
from anygpu.spec.jobspec import JobSpec
from anygpu.store.sql.engine.statements import fetch_one
from anygpu.store.sql.event_rows import read_events


def decode_stored_view(job_id: str, position: int, data: str) -> JobView | None:
    """Decode the stored state of a job. Return None if it is damaged, or belongs to another job or position."""
    try:
        view = decode_view(data)
    except DECODE_ERRORS:
        return None
    return view if (view.id, view.position) == (job_id, position) else None


def refold(connection: Connection, job_id: str) -> JobView:
    """Compute the state of a job from its events. If that is not possible, its field `damaged` says why."""
    history = read_events(connection, "e.job_id = ?", (job_id,), limit=-1)
    view: JobView | None = None
    reason = "" if history else "the journal has no events of this job"
    for recorded in history:
        try:
            view = step(view, recorded)
        except InvalidEvent as error:
            reason = reason or _describe(recorded, error)
    if view is not None and not reason:
        return view
    return _with_columns(connection, job_id, view or _empty_view(job_id, history), reason)


def _describe(recorded: Recorded, error: InvalidEvent) -> str:
    event = recorded.event
    if isinstance(event, DamagedEvent):
        return f"event {recorded.position} ({event.kind}) cannot be read: {event.reason}"
    return f"event {recorded.position} does not fit the events before it: {error.message}"


def _empty_view(job_id: str, history: list[Recorded]) -> JobView:
    at_ms = history[0].at_ms if history else 0
    return JobView(
        id=job_id,
        organisation="",
        project="",
        person="",
        name="",
        spec=JobSpec.model_construct(),  # the real one is lost
        submitted_at_ms=at_ms,
        updated_at_ms=at_ms,
        position=0,
    )


def _with_columns(connection: Connection, job_id: str, view: JobView, reason: str) -> JobView:
    """Return the state with the status, phase and times from the row of the job, as far as these can be read."""
    sql = (
        "SELECT p.organisation, p.project, j.position, j.submitted_at_ms, j.ended_at_ms, j.status, j.phase"
        " FROM jobs j JOIN projects p ON p.id = j.project_id WHERE j.id = ?"
    )
    row = fetch_one(connection, sql, (job_id,))
    if row is None:
        return replace(view, damaged=reason)
    organisation, project, position, submitted_at_ms, ended_at_ms, status, phase = row
    return replace(
        view,
        organisation=organisation,
        project=project,
        position=_integer(position, view.position),
        submitted_at_ms=_integer(submitted_at_ms, view.submitted_at_ms),
        ended_at_ms=_integer(ended_at_ms, view.ended_at_ms),
        status=Status(status) if status in [*Status] else view.status,
        phase=Phase(phase) if phase in [*Phase] else view.phase,
        damaged=reason,
    )


def _integer(value: Any, otherwise: Any) -> Any:
    return value if isinstance(value, int) else otherwise
