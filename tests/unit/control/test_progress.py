"""How much training is saved and left, derived from the events of a job."""

from dataclasses import replace

from tests.unit.control.jobs_in_states import (
    checkpoint,
    ended,
    lost,
    recovering,
    released,
    saved,
    training,
    view,
)

from anygpu.control.policy import ControlPolicy
from anygpu.control.progress import (
    checkpoint_interval_s,
    deadline_ms,
    expected_training_s,
    remaining_s,
    startup_s,
    trained_s,
    unsaved_s,
    used_time_s,
)
from anygpu.events.facts import FIRST_STEPS, Prediction
from anygpu.events.view import JobView

# Events are one second apart: the job is submitted at 1 s, launched at 2 s, and trains from 5 s.
TRAINING_FROM_S = 5


def predicted(job: JobView, *, high_s: float, basis: str) -> JobView:
    prediction = Prediction(
        wall_s=high_s / 2,
        wall_low_s=high_s / 4,
        wall_high_s=high_s,
        cost_microusd=0,
        cost_low_microusd=0,
        cost_high_microusd=0,
        basis=basis,
    )
    return replace(job, prediction=prediction)


def test_a_deadline_counts_from_the_submission() -> None:
    assert deadline_ms(view()) is None
    assert deadline_ms(view(limits={"deadline": "1h"})) == 1000 + 3_600_000


def test_a_stated_duration_is_preferred_until_the_job_has_measured_its_steps() -> None:
    stated = view(placement={"expected_duration": "100s"})
    assert expected_training_s(stated) == 100
    assert expected_training_s(predicted(stated, high_s=400, basis="code")) == 100
    assert expected_training_s(predicted(stated, high_s=400, basis=FIRST_STEPS)) == 400
    assert expected_training_s(predicted(stated, high_s=40, basis=FIRST_STEPS)) == 100


def test_without_a_stated_duration_the_prediction_counts_if_it_is_based_on_something() -> None:
    assert expected_training_s(view()) is None
    assert expected_training_s(predicted(view(), high_s=400, basis="code")) == 400
    assert expected_training_s(predicted(view(), high_s=400, basis="nothing")) is None


def test_training_is_summed_over_the_attempts_that_led_to_the_checkpoint() -> None:
    first = checkpoint(15)  # ten seconds of training
    resumed = training(2, resume=first)
    events = [*training(), saved(15), lost(), released(), recovering(), *resumed, saved(43, attempt=2)]
    job = view(*events)
    second_from_s = job.attempts[1].training_at_ms or 0
    assert trained_s(job, first) == 15 - TRAINING_FROM_S
    assert trained_s(job, job.newest_checkpoint) == (15 - TRAINING_FROM_S) + 43 - second_from_s / 1000
    assert trained_s(job, None) == 0


def test_the_time_left_is_what_follows_the_newest_checkpoint() -> None:
    job = view(*training(), saved(15))
    assert remaining_s(job, 100) == 90
    assert remaining_s(job, 4) == 6  # longer than expected: as much again as the excess


def test_all_training_counts_for_the_time_limit_whether_it_was_saved_or_not() -> None:
    job = view(*training(), ended(exit_code=0))
    assert used_time_s(job.attempts, now_ms=99_000) == 1
    assert used_time_s(view(*training()).attempts, now_ms=65_000) == 60
    assert used_time_s((), now_ms=65_000) == 0


def test_unsaved_training_counts_from_the_newest_checkpoint_of_the_running_attempt() -> None:
    assert unsaved_s(view(), now_ms=30_000) == 0
    assert unsaved_s(view(*training()), now_ms=30_000) == 25
    assert unsaved_s(view(*training(), saved(20)), now_ms=30_000) == 10


def test_the_interval_of_checkpoints_is_the_longest_that_was_observed() -> None:
    keep = {"every": "7s", "keep": 5}
    assert checkpoint_interval_s(view(*training(), saved(10), checkpoint=keep)) == 7
    assert checkpoint_interval_s(view(*training(), saved(10), saved(40), saved(45), checkpoint=keep)) == 30


def test_a_start_takes_as_long_as_the_longest_observed_or_the_limit() -> None:
    policy = ControlPolicy()
    assert startup_s(view(), policy) == policy.claim_limit_s
    assert startup_s(view(*training()), policy) == 3
