"""The state machine of a job: fold its events into a view, and refuse events that do not fit the state of the job.

The check runs inside the journal's transaction. So a job can never have two terminal states, and only one of its
attempts can commit at a time.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from anygpu.events.transitions import InvalidEvent, apply
from anygpu.events.types import AFTERWARDS, Event, JobSubmitted
from anygpu.events.view import JobView


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """An event together with its position in the journal."""

    organisation: str
    project: str
    position: int
    job_id: str
    at_ms: int
    event: Event


def fold(history: Iterable[Recorded], view: JobView | None = None) -> JobView | None:
    for recorded in history:
        view = step(view, recorded)
    return view


def step(view: JobView | None, recorded: Recorded) -> JobView:
    """Return the view (current state) of the job after one more event."""
    event = recorded.event
    if view is None:
        if not isinstance(event, JobSubmitted):
            raise InvalidEvent(
                f"the job's state does not allow the event {type(event).__name__}: the first event of a job must be "
                "JobSubmitted"
            )
        return _new_view(event, recorded)
    if view.is_terminal and not isinstance(event, AFTERWARDS):
        raise InvalidEvent(
            f"the job's state does not allow the event {type(event).__name__}: the job has already ended with the "
            f"status {view.status}"
        )
    after = apply(event, view, recorded.at_ms)
    return replace(after, position=recorded.position, updated_at_ms=recorded.at_ms)


def _new_view(event: JobSubmitted, recorded: Recorded) -> JobView:
    only = (event.resume_checkpoint,) if event.resume_checkpoint else ()
    return JobView(
        id=recorded.job_id,
        organisation=recorded.organisation,
        project=recorded.project,
        person=event.person,
        name=event.spec.name or "",
        spec=event.spec,
        submitted_at_ms=recorded.at_ms,
        updated_at_ms=recorded.at_ms,
        position=recorded.position,
        checkpoints=event.resume_checkpoints or only,
        resumed_from=event.resumed_from,
    )
