"""Sample jobs and their events, for tests of journals and of the states of jobs."""

from typing import Any
from uuid import UUID

from anygpu.events.facts import Blame, CheckpointRef, Failure, Marks
from anygpu.events.offers import Handle, Offer
from anygpu.events.types import (
    AttemptClaimed,
    AttemptEnded,
    AttemptLaunched,
    AttemptLaunching,
    AttemptReleased,
    CheckpointSaved,
    Event,
    JobCompleted,
    JobSubmitted,
    RecoveryStarted,
    TrainingStarted,
)
from anygpu.spec.jobspec import JobSpec
from anygpu.spec.load import from_mapping
from anygpu.store.scope import Scope

START_MS = 1_760_000_000_000
LAB = Scope(organisation="lab", project="vision", person="ada")
LAB_OTHER_PROJECT = Scope(organisation="lab", project="speech", person="ada")
STRANGER = Scope(organisation="other", project="vision", person="bob")


def job_id(number: int) -> str:
    """Return a job id (UUIDv7) made from `number`.

    The times in ids with consecutive numbers differ by a second.
    """
    at_ms = START_MS + number * 1000
    return str(UUID(int=at_ms << 80 | 0x7 << 76 | 0x2 << 62 | number))


def job_spec(**fields: Any) -> JobSpec:
    return from_mapping({"script": "train.py"} | fields)


def job_submitted(**fields: Any) -> JobSubmitted:
    return JobSubmitted(spec=job_spec(**fields), person="ada")


def attempt_launching(attempt: int = 1, backend: str = "local") -> AttemptLaunching:
    offer = Offer(backend=backend, name="box", cpus=2)
    return AttemptLaunching(attempt=attempt, name=f"anygpu-{attempt}", offer=offer, ticket_sha256="0" * 64)


def attempt_training(attempt: int = 1, backend: str = "local") -> list[Event]:
    """Return the events of an attempt from its launch until the user's script runs."""
    return [
        attempt_launching(attempt, backend),
        AttemptLaunched(attempt=attempt, handle=Handle(name=f"anygpu-{attempt}", native={"pid": 7})),
        AttemptClaimed(attempt=attempt, claimant="c", host={"os": "linux"}),
        TrainingStarted(attempt=attempt),
    ]


def checkpoint_saved(step: int, attempt: int = 1) -> CheckpointSaved:
    ref = CheckpointRef(
        id=f"c{step}", attempt=attempt, step=step, manifest=f"m/{step}", size=1, saved_at_ms=START_MS + step
    )
    return CheckpointSaved(attempt=attempt, checkpoint=ref)


def attempt_ended(attempt: int = 1, *, exit_code: int = 0) -> list[Event]:
    marks = Marks(log_bytes=10, metric_points=2)
    return [
        AttemptEnded(attempt=attempt, outcome="exited", exit_code=exit_code, step=9, marks=marks),
        AttemptReleased(attempt=attempt),
    ]


def recovery_started(attempt: int = 1) -> RecoveryStarted:
    failure = Failure(code="lost", message="the machine died", blame=Blame.INFRASTRUCTURE)
    return RecoveryStarted(attempt=attempt, failure=failure, delay_s=0.5, work_lost_s=1.25)


def interrupted_job() -> list[Event]:
    """Return the events after submission of a job whose first attempt failed and whose second attempt completed."""
    first = [
        *attempt_training(1),
        checkpoint_saved(100),
        checkpoint_saved(200),
        *attempt_ended(1, exit_code=1),
        recovery_started(1),
    ]
    return [
        *first,
        *attempt_training(2, "cloud"),
        checkpoint_saved(300, 2),
        *attempt_ended(2),
        JobCompleted(),
    ]
