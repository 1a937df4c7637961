"""A job that has shown its pace on a dear machine, as the tests of better places need it."""

from typing import Any

from anygpu.events.facts import FIRST_STEPS, Blame, CheckpointRef, Failure, Prediction
from anygpu.events.fold import Recorded, fold
from anygpu.events.offers import Handle, Offer
from anygpu.events.types import (
    AttemptClaimed,
    AttemptEnded,
    AttemptLaunched,
    AttemptLaunching,
    AttemptReleased,
    CheckpointSaved,
    Event,
    JobPlanned,
    JobSubmitted,
    RecoveryStarted,
    StopRequested,
    TrainingStarted,
)
from anygpu.events.view import JobView
from anygpu.spec.load import from_mapping

HOUR = 3600.0
SAVED_AT, NOW = 1000.0, 1030.0
DEAR = Offer(
    backend="dear",
    name="g5",
    gpu_kind="A10G",
    gpu_count=1,
    gpu_memory_gib=24,
    price_microusd_per_hour=2_000_000,
)
Timed = tuple[float, Event]  # seconds after the job was submitted


def asked(**spec: Any) -> JobSubmitted:
    wanted = {
        "script": "train.py",
        "checkpoint": {"paths": ["ckpt/*"], "resume_args": ["--resume"], "every": "10m"},
        **spec,
    }
    return JobSubmitted(spec=from_mapping(wanted))


def job(*told: Timed, **spec: Any) -> JobView:
    view = fold(
        Recorded(
            organisation="lab", project="p", position=n, job_id="job", at_ms=round(at * 1000), event=event
        )
        for n, (at, event) in enumerate([(0.0, asked(**spec)), *told], 1)
    )
    assert view is not None
    return view


def started(at: float, offer: Offer = DEAR, number: int = 1) -> list[Timed]:
    name = f"anygpu-job-{number}"
    return [
        (at, AttemptLaunching(attempt=number, name=name, offer=offer, ticket_sha256="")),
        (at, AttemptLaunched(attempt=number, handle=Handle(name=name))),
        (at + 100, AttemptClaimed(attempt=number, claimant="agent")),
        (at + 100, TrainingStarted(attempt=number)),
    ]


def saved(at: float, number: int = 1, size: int = 1) -> Timed:
    ref = CheckpointRef(
        id=f"{number}@{at}", attempt=number, step=1, manifest="m", size=size, saved_at_ms=round(at * 1000)
    )
    return at, CheckpointSaved(attempt=number, checkpoint=ref)


def predicted(hours: float = 10, basis: str = FIRST_STEPS) -> JobPlanned:
    wall_s, cost = hours * HOUR, round(hours * 2_000_000)
    told = Prediction(
        wall_s=wall_s,
        wall_low_s=0.9 * wall_s,
        wall_high_s=1.1 * wall_s,
        cost_microusd=cost,
        cost_low_microusd=round(0.9 * cost),
        cost_high_microusd=round(1.1 * cost),
        basis=basis,
    )
    return JobPlanned(prediction=told)


def settled_in(offer: Offer = DEAR, **spec: Any) -> JobView:
    """Ten hours in all, seventeen minutes of them done, saved half a minute ago."""
    return job(*started(0, offer), (400, predicted()), saved(SAVED_AT), **spec)


def moved(at: float, number: int) -> list[Timed]:
    """The attempt was left for a better place."""
    failure = Failure(code="cheaper", message="", blame=Blame.PREEMPTION)
    return [
        (at, StopRequested(attempt=number, reason="cheaper")),
        (at, AttemptEnded(attempt=number, outcome="stopped")),
        (at, AttemptReleased(attempt=number)),
        (at, RecoveryStarted(attempt=number, failure=failure, delay_s=0, work_lost_s=0, counts=False)),
    ]
