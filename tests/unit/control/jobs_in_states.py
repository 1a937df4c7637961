"""Views in whatever state a table needs, folded from real events."""

from typing import Any

from anygpu.events.facts import Blame, CheckpointRef, Failure
from anygpu.events.fold import Recorded, fold
from anygpu.events.offers import Handle, Offer
from anygpu.events.types import (
    AttemptClaimed,
    AttemptEnded,
    AttemptLaunched,
    AttemptLaunching,
    AttemptLost,
    AttemptReleased,
    CancelRequested,
    CheckpointSaved,
    Event,
    JobSubmitted,
    RecoveryStarted,
    StopRequested,
    TrainingStarted,
)
from anygpu.events.view import JobView
from anygpu.spec.load import from_mapping

SPOT = Offer(backend="cloud", price_microusd_per_hour=3_600_000)


def view(*events: Event, **spec: Any) -> JobView:
    """A job after these events; they are written one second apart."""
    submitted = JobSubmitted(spec=from_mapping({"script": "train.py", **spec}))
    history = [
        Recorded(organisation="lab", project="p", position=n, job_id="job", at_ms=n * 1000, event=event)
        for n, event in enumerate([submitted, *events], 1)
    ]
    folded = fold(history)
    assert folded is not None
    return folded


def launching(attempt: int = 1, resume: CheckpointRef | None = None) -> AttemptLaunching:
    return AttemptLaunching(
        attempt=attempt, name=f"anygpu-job-{attempt}", offer=SPOT, ticket_sha256="", resume=resume
    )


def launched(attempt: int = 1, resume: CheckpointRef | None = None) -> list[Event]:
    handle = Handle(name=f"anygpu-job-{attempt}")
    return [launching(attempt, resume), AttemptLaunched(attempt=attempt, handle=handle)]


def training(attempt: int = 1, resume: CheckpointRef | None = None) -> list[Event]:
    claimed = AttemptClaimed(attempt=attempt, claimant="agent")
    return [*launched(attempt, resume), claimed, TrainingStarted(attempt=attempt)]


def checkpoint(step: int, attempt: int = 1) -> CheckpointRef:
    return CheckpointRef(
        id=f"{attempt}@{step}",
        attempt=attempt,
        step=step,
        manifest=f"m{step}",
        size=1,
        saved_at_ms=step * 1000,
    )


def saved(step: int, attempt: int = 1) -> CheckpointSaved:
    return CheckpointSaved(attempt=attempt, checkpoint=checkpoint(step, attempt))


def ended(attempt: int = 1, outcome: str = "exited", **how: Any) -> AttemptEnded:
    return AttemptEnded(attempt=attempt, outcome=outcome, **how)


def lost(attempt: int = 1, code: str = "silent", blame: Blame = Blame.INFRASTRUCTURE) -> AttemptLost:
    failure = Failure(code=code, message=code, blame=blame)
    return AttemptLost(attempt=attempt, evidence=code, failure=failure)


def released(attempt: int = 1) -> AttemptReleased:
    return AttemptReleased(attempt=attempt)


def recovering(attempt: int = 1, *, counts: bool = True) -> RecoveryStarted:
    failure = Failure(code="silent", message="", blame=Blame.INFRASTRUCTURE)
    return RecoveryStarted(attempt=attempt, failure=failure, delay_s=1, work_lost_s=0, counts=counts)


def stopping(reason: str, attempt: int = 1) -> StopRequested:
    return StopRequested(attempt=attempt, reason=reason)


CANCEL = CancelRequested()
