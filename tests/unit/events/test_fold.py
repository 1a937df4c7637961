"""The state machine: what may follow what, and what a view says."""

from dataclasses import replace
from itertools import pairwise

import pytest

from anygpu.events.codec import decode, decode_view, encode, encode_view
from anygpu.events.facts import (
    FIRST_STEPS,
    ArtifactRef,
    BetterPlace,
    Blame,
    CheckpointRef,
    Failure,
    Marks,
    Phase,
    Prediction,
    Status,
    Usage,
)
from anygpu.events.fold import InvalidEvent, Recorded, fold
from anygpu.events.offers import Handle, Offer
from anygpu.events.types import (
    EVENTS,
    ArtifactSaved,
    AttemptClaimed,
    AttemptEnded,
    AttemptLaunched,
    AttemptLaunching,
    AttemptLost,
    AttemptReleased,
    AttemptStranded,
    BetterPlaceFound,
    CancelRequested,
    CheckpointRejected,
    CheckpointSaved,
    Event,
    HoldEnded,
    HoldStarted,
    JobCancelled,
    JobCompleted,
    JobDeleted,
    JobEdited,
    JobFailed,
    JobPlanned,
    JobSubmitted,
    JobWaited,
    MachineStarted,
    MeterDiffered,
    MigrateRequested,
    OrphanEnded,
    RecoveryStarted,
    StartRequested,
    StopRequested,
    TrainingRestarted,
    TrainingResumed,
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


@pytest.mark.parametrize(
    ("events", "status", "phase"),
    [
        ([], Status.QUEUED, Phase.PLANNING),
        ([JobWaited(reason="full")], Status.QUEUED, Phase.WAITING),
        ([launching(1)], Status.RUNNING, Phase.PROVISIONING),
        (started(1)[:3], Status.RUNNING, Phase.PREPARING),
        (started(1), Status.RUNNING, Phase.TRAINING),
        ([*started(1), StopRequested(attempt=1, reason="timeout")], Status.RUNNING, Phase.CHECKPOINTING),
        ([*started(1), ended(1)], Status.RUNNING, Phase.FINISHING),
        ([*started(1), ended(1), AttemptReleased(attempt=1), JobCompleted()], Status.COMPLETED, Phase.ENDED),
        (
            [*started(1), AttemptLost(attempt=1, evidence="gone", failure=LOST), RECOVERY],
            Status.RUNNING,
            Phase.RECOVERING,
        ),
        ([CancelRequested(), JobCancelled()], Status.CANCELLED, Phase.ENDED),
    ],
)
def test_status_and_phase_follow_from_the_events(events: list[Event], status: Status, phase: Phase) -> None:
    view = after(*events)
    assert (view.status, view.phase) == (status, phase)


@pytest.mark.parametrize(
    ("history", "out_of_turn"),
    [
        ([CancelRequested(), JobCancelled()], JobCompleted()),
        ([*started(1)], launching(2)),
        ([], launching(2)),
        ([CancelRequested()], launching(1)),
        ([*started(1)], AttemptClaimed(attempt=1, claimant="b")),
        ([*started(1)], AttemptReleased(attempt=1)),
        ([*started(1), ended(1)], JobCompleted()),
        ([*started(1), ended(1)], CheckpointSaved(attempt=1, checkpoint=SAVED)),
        ([*started(1), ended(1)], ended(1)),
        ([*started(1), ended(1), RECOVERY], RECOVERY),
        ([*started(1), ended(1), AttemptReleased(attempt=1)], AttemptReleased(attempt=1)),
        ([launching(1)], TrainingStarted(attempt=1)),
        (
            [*started(1), AttemptLost(attempt=1, evidence="", failure=LOST), RECOVERY, *started(2)],
            CheckpointSaved(attempt=1, checkpoint=SAVED),
        ),
        ([*started(1)], JobWaited(reason="full")),
    ],
)
def test_an_event_out_of_turn_is_refused(history: list[Event], out_of_turn: Event) -> None:
    after(*history)
    with pytest.raises(InvalidEvent):
        after(*history, out_of_turn)


def test_an_agent_may_claim_and_end_before_its_launch_call_returned() -> None:
    view = after(
        launching(1),
        AttemptClaimed(attempt=1, claimant="a"),
        TrainingStarted(attempt=1),
        ended(1),
        AttemptLaunched(attempt=1, handle=Handle(name="anygpu-j-1", native={"id": "i-1"})),
    )
    assert view.attempts[0].handle == Handle(name="anygpu-j-1", native={"id": "i-1"})


def test_an_attempt_knows_when_it_saved_checkpoints_in_bounded_space() -> None:
    def saved(step: int) -> CheckpointSaved:
        return CheckpointSaved(
            attempt=1, checkpoint=replace(SAVED, id=f"c{step}", step=step, saved_at_ms=step)
        )

    for count in (0, 1, 32, 33, 65, 500):
        attempt = after(*started(1), *(saved(step) for step in range(count))).attempts[0]
        steps = [mark.step for mark in attempt.checkpoint_marks]
        assert attempt.checkpoints_saved == count
        assert len(steps) <= 33
        assert steps[-1:] == ([count - 1] if count else [])
        gaps = {later - earlier for earlier, later in pairwise(steps[:-1])}
        assert len(gaps) <= 1  # evenly chosen, except for the newest


def test_an_attempt_keeps_why_it_was_replaced_and_what_that_lost() -> None:
    recovery = replace(RECOVERY, work_lost_s=90, work_lost_microusd=7)
    lost = AttemptLost(attempt=1, evidence="gone", failure=LOST)
    view = after(*started(1), lost, recovery)
    (first,) = view.attempts
    assert (first.failure, first.work_lost_s, first.work_lost_microusd) == (LOST, 90, 7)
    assert decode_view(encode_view(view)) == view


def test_the_newest_attempt_of_a_failed_job_has_its_failure() -> None:
    failure = Failure(code="exit_code", message="the script exited with code 1", blame=Blame.USER)
    failed = JobFailed(failure=failure)
    view = after(*started(1), ended(1, 1), AttemptReleased(attempt=1), failed)
    assert view.attempts[0].failure == failure


def test_only_the_newest_checkpoints_are_kept() -> None:
    saves = [
        CheckpointSaved(
            attempt=1,
            checkpoint=CheckpointRef(id=f"c{n}", attempt=1, step=n, manifest=f"m{n}", size=1, saved_at_ms=n),
        )
        for n in range(1, 6)
    ]
    view = after(*started(1), *saves)
    assert [c.step for c in view.checkpoints] == [3, 4, 5]
    rejected = after(*started(1), *saves, CheckpointRejected(attempt=1, checkpoint_id="c5", reason="torn"))
    assert rejected.newest_checkpoint is not None
    assert rejected.newest_checkpoint.step == 4


def test_the_work_lost_adds_up_over_interruptions() -> None:
    second = RecoveryStarted(attempt=2, failure=LOST, delay_s=1, work_lost_s=6, counts=False)
    view = after(*started(1), ended(1, 137), RECOVERY, *started(2), ended(2, 137), second)
    assert view.work_lost_s == 10
    assert view.retries_used == 1


EXAMPLES: tuple[Event, ...] = (
    SUBMITTED,
    JobPlanned(plan="k", prediction=GUESS),
    BetterPlaceFound(attempt=1, better=BETTER),
    JobWaited(reason="full"),
    *started(1),
    TrainingResumed(attempt=1, checkpoint_step=4, first_step=5),
    TrainingRestarted(attempt=1, checkpoint_step=4, first_step=1, work_lost_s=3, work_lost_microusd=2),
    CheckpointSaved(attempt=1, checkpoint=SAVED),
    CheckpointRejected(attempt=1, checkpoint_id="c1", reason="torn"),
    ArtifactSaved(attempt=1, artifact=ArtifactRef(name="a", attempt=1, key="k", size=1, sha256="s")),
    StopRequested(attempt=1, reason="preempt", message="makes room", makes_room_for="job-2"),
    CancelRequested(person="me"),
    ended(1),
    AttemptLost(attempt=1, evidence="gone", failure=LOST),
    MachineStarted(attempt=1, started_at_ms=7, price_microusd_per_hour=8),
    MigrateRequested(to="cloud", person="me"),
    StartRequested(person="me"),
    JobEdited(name="new", tags=("a",), notes="b", person="me"),
    HoldStarted(attempt=1, until_ms=9),
    HoldEnded(attempt=1, reason="release", person="me"),
    AttemptStranded(attempt=1, reason="not configured"),
    AttemptReleased(attempt=1, evidence="gone", usage=USAGE),
    OrphanEnded(attempt=1, usage=USAGE),
    MeterDiffered(attempt=1, ours_microusd=1, theirs_microusd=2),
    RECOVERY,
    JobCompleted(),
    JobFailed(failure=LOST),
    JobCancelled(),
    JobDeleted(name="n", status="completed", cost_microusd=3, person="me"),
)


@pytest.mark.parametrize("event", EXAMPLES, ids=lambda event: type(event).__name__)
def test_every_event_survives_its_journal(event: Event) -> None:
    assert decode(type(event).__name__, event.VERSION, encode(event)) == event


def test_there_is_an_example_of_every_event() -> None:
    assert {type(event) for event in EXAMPLES} == set(EVENTS)


def test_the_first_prediction_stays_beside_the_newest() -> None:
    told = replace(GUESS, wall_s=70, basis=FIRST_STEPS)
    view = after(JobPlanned(plan="k", prediction=GUESS), *started(1), JobPlanned(prediction=told))
    assert (view.plan, view.predicted, view.prediction, view.phase) == ("k", GUESS, told, Phase.TRAINING)
    assert after(*started(1), JobPlanned(prediction=told)).predicted is None


def test_a_prediction_from_first_steps_belongs_to_the_attempt_that_took_them() -> None:
    told = replace(GUESS, basis=FIRST_STEPS)
    calibrated = after(*started(1), JobPlanned(prediction=told))
    assert calibrated.calibrated == 1
    assert after(*started(1), JobPlanned(prediction=told), JobPlanned(plan="k")).calibrated == 1
    assert after(*started(1), JobPlanned(prediction=told), JobPlanned(prediction=GUESS)).calibrated == 0


def test_a_better_place_is_known_until_it_is_taken_back_or_the_next_launch() -> None:
    found = BetterPlaceFound(attempt=1, better=BETTER)
    assert after(*started(1), found).better == BETTER
    assert after(*started(1), found, BetterPlaceFound(attempt=1)).better is None
    stopped = [*started(1), found, StopRequested(attempt=1, reason="cheaper"), ended(1)]
    assert after(*stopped).better == BETTER
    assert after(*stopped, RECOVERY, *started(2)).better is None


def test_a_better_place_of_an_attempt_that_is_over_is_refused() -> None:
    with pytest.raises(InvalidEvent):
        after(*started(1), ended(1), BetterPlaceFound(attempt=1, better=BETTER))


def test_a_view_survives_its_cache() -> None:
    view = after(*started(1), CheckpointSaved(attempt=1, checkpoint=SAVED), ended(1))
    assert decode_view(encode_view(view)) == view


RELEASED = AttemptReleased(attempt=1, usage=USAGE)
DONE = [*started(1), ended(1), RELEASED, JobCompleted()]


def test_the_ledger_adds_up_what_is_released_and_what_turned_up_late() -> None:
    late = OrphanEnded(attempt=1, usage=Usage(started_at_ms=5, ended_at_ms=6, cost_microusd=4))
    assert after(*started(1), ended(1)).cost_microusd == 0
    assert after(*DONE).cost_microusd == 3
    view = after(*DONE, late)
    assert (view.cost_microusd, view.attempts[0].cost_microusd, view.status) == (7, 7, Status.COMPLETED)
    with pytest.raises(InvalidEvent):
        after(*DONE, late, late)


def test_a_meter_that_differs_is_noted_after_the_end_and_changes_nothing_else() -> None:
    view = after(*DONE, MeterDiffered(attempt=1, ours_microusd=3, theirs_microusd=5))
    assert view.attempts[0].metered_microusd == 5
    assert (view.cost_microusd, view.status, view.ended_at_ms) == (
        3,
        Status.COMPLETED,
        after(*DONE).ended_at_ms,
    )


def test_a_held_machine_is_held_once_and_until_somebody_lets_it_go() -> None:
    failed = [*started(1), ended(1, 1)]
    held = after(*failed, HoldStarted(attempt=1, until_ms=99))
    assert (held.phase, held.attempts[0].is_held) == (Phase.HELD, True)
    let_go = after(*failed, HoldStarted(attempt=1, until_ms=99), HoldEnded(attempt=1, reason="time"))
    assert (let_go.phase, let_go.attempts[0].is_held) == (Phase.FINISHING, False)
    for wrong in (HoldStarted(attempt=1, until_ms=99), HoldEnded(attempt=1, reason="time")):
        with pytest.raises(InvalidEvent):
            after(*failed, HoldStarted(attempt=1, until_ms=99), HoldEnded(attempt=1, reason="time"), wrong)


def test_an_edit_changes_only_what_it_names_also_after_the_end() -> None:
    edited = after(*started(1), JobEdited(name="new", tags=("a",)))
    assert (edited.name, edited.tags, edited.notes) == ("new", ("a",), "")
    cancelled = after(CancelRequested(), JobCancelled(), JobEdited(notes="why"))
    assert (cancelled.notes, cancelled.tags, cancelled.is_terminal) == ("why", cancelled.spec.tags, True)
    assert after(JobEdited(tags=("a",)), JobEdited(tags=())).tags == ()


def test_a_requested_start_skips_the_delay_and_is_fulfilled_by_the_next_launch() -> None:
    waiting = after(*started(1), ended(1), RECOVERY, StartRequested(person="me"))
    assert (waiting.start_requested_at_ms, waiting.retry_delay_s) == (waiting.updated_at_ms, 0)
    launched = after(*started(1), ended(1), RECOVERY, StartRequested(person="me"), launching(2))
    assert launched.start_requested_at_ms is None
    with pytest.raises(InvalidEvent, match="an attempt is live"):
        after(*started(1), StartRequested(person="me"))


def test_a_wish_to_move_is_fulfilled_by_the_next_launch() -> None:
    moving = [*started(1), MigrateRequested(to="cloud")]
    assert after(*moving).migrate_to == "cloud"
    assert after(*moving, ended(1), RECOVERY, launching(2)).migrate_to == ""
    with pytest.raises(InvalidEvent):
        after(*started(1), CancelRequested(), MigrateRequested(to="cloud"))


def test_the_providers_word_on_the_price_counts_more_than_the_offers() -> None:
    view = after(*started(1), MachineStarted(attempt=1, started_at_ms=7, price_microusd_per_hour=8))
    assert (view.attempts[0].hourly_microusd, view.attempts[0].started_at_ms) == (8, 7)
    assert after(*started(1), MachineStarted(attempt=1, started_at_ms=7)).attempts[0].hourly_microusd == 0
