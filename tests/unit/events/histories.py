"""Events of a job, and the state of the job after some of them."""

from anygpu.events.facts import (
    BetterPlace,
    Blame,
    CheckpointRef,
    Failure,
    Marks,
    Prediction,
    Usage,
)
from anygpu.events.fold import Recorded, fold
from anygpu.events.offers import Handle, Offer
from anygpu.events.types import (
    AttemptClaimed,
    AttemptEnded,
    AttemptLaunched,
    AttemptLaunching,
    Event,
    JobSubmitted,
    RecoveryStarted,
    TrainingStarted,
)
from anygpu.events.view import JobView
from anygpu.spec.load import from_mapping

OFFER = Offer(backend="local")
LOST = Failure(code="machine_lost", message="gone", blame=Blame.INFRASTRUCTURE)
SUBMITTED = JobSubmitted(spec=from_mapping({"script": "train.py", "name": "digits"}), person="me")
USAGE = Usage(started_at_ms=1, ended_at_ms=2, cost_microusd=3)
SAVED = CheckpointRef(id="c1", attempt=1, step=10, manifest="m", size=3, saved_at_ms=9)


def launching(number: int) -> AttemptLaunching:
    return AttemptLaunching(attempt=number, name=f"anygpu-j-{number}", offer=OFFER, ticket_sha256="t")


def started(number: int) -> list[Event]:
    return [
        launching(number),
        AttemptLaunched(attempt=number, handle=Handle(name=f"anygpu-j-{number}")),
        AttemptClaimed(attempt=number, claimant="a"),
        TrainingStarted(attempt=number),
    ]


def after(*events: Event) -> JobView:
    view = fold(
        Recorded(organisation="o", project="p", position=n, job_id="j", at_ms=n * 1000, event=event)
        for n, event in enumerate((SUBMITTED, *events), start=1)
    )
    assert view is not None
    return view


def ended(number: int, exit_code: int = 0) -> AttemptEnded:
    return AttemptEnded(attempt=number, outcome="exited", exit_code=exit_code, marks=Marks(log_bytes=5))


GUESS = Prediction(
    wall_s=60, wall_low_s=30, wall_high_s=120, cost_microusd=9, cost_low_microusd=5, cost_high_microusd=20
)
BETTER = BetterPlace(
    offer=OFFER, saves_microusd=9, saves_low_microusd=1, sooner_s=-60, sooner_low_s=-90, by_itself=True
)
RECOVERY = RecoveryStarted(attempt=1, failure=LOST, delay_s=1, work_lost_s=4)
