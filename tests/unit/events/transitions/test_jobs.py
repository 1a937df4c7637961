"""How events change a job as a whole."""

from dataclasses import replace

import pytest
from tests.unit.events.histories import (
    BETTER,
    GUESS,
    LOST,
    RECOVERY,
    after,
    ended,
    launching,
    started,
)

from anygpu.events.codec import decode_view, encode_view
from anygpu.events.facts import (
    FIRST_STEPS,
    Blame,
    Failure,
    Phase,
)
from anygpu.events.transitions import InvalidEvent
from anygpu.events.types import (
    AttemptLost,
    AttemptReleased,
    BetterPlaceFound,
    CancelRequested,
    JobCancelled,
    JobEdited,
    JobFailed,
    JobPlanned,
    MigrateRequested,
    RecoveryStarted,
    StartRequested,
    StopRequested,
)


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


def test_the_work_lost_adds_up_over_interruptions() -> None:
    second = RecoveryStarted(attempt=2, failure=LOST, delay_s=1, work_lost_s=6, counts=False)
    view = after(*started(1), ended(1, 137), RECOVERY, *started(2), ended(2, 137), second)
    assert view.work_lost_s == 10
    assert view.retries_used == 1


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
