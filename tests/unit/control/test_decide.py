"""Which facts follow from what was seen: tables over `events_due`."""

from typing import Any

import pytest
from tests.unit.control.jobs_in_states import (
    CANCEL,
    checkpoint,
    ended,
    launched,
    launching,
    lost,
    recovering,
    released,
    saved,
    stopping,
    training,
    view,
)

from anygpu.backends.contract import Observation, State
from anygpu.control.decide import Probe, Seen, events_due
from anygpu.control.policy import Policy
from anygpu.events.facts import Blame, Failure
from anygpu.events.types import AttemptLost, AttemptReleased, JobCompleted, RecoveryStarted, StopRequested
from anygpu.events.view import JobView

POLICY = Policy()
REFUSED = Failure(code="no_capacity", message="full", blame=Blame.LAUNCH)


def observed(state: State, *, preempted: bool = False, **seen: Any) -> Seen:
    return Seen(probe=Probe(observation=Observation(state=state, preempted=preempted)), **seen)


def due(job: JobView, *seen: Seen, policy: Policy = POLICY) -> list[str]:
    """Names of the events that are due, for attempts 1, 2, … as seen."""
    events = events_due(job, dict(enumerate(seen, 1)), policy, jitter=0.5)
    return [type(event).__name__ for event in events]


LIVE = [
    # what it is, what was seen of it, what follows
    ("intent", [launching()], Seen(), []),
    ("intent, refused", [launching()], Seen(refusal=REFUSED), ["AttemptLost"]),
    ("intent, four unknown launches", [launching()], Seen(launch_failures=4), []),
    ("intent, five unknown launches", [launching()], Seen(launch_failures=5), ["AttemptLost"]),
    ("intent, list lags", [launching()], observed(State.ABSENT, absent_s=999, silent_s=999), []),
    ("intent, cancelled", [launching(), CANCEL], Seen(), ["AttemptLost"]),
    ("launched, booting", launched(), observed(State.PENDING, state_s=599, silent_probes=50), []),
    ("launched, never heard", launched(), Seen(state_s=601, silent_probes=3), ["AttemptLost"]),
    ("launched, never heard, hardly probed", launched(), Seen(state_s=601, silent_probes=2), []),
    ("launched, gone", launched(), observed(State.GONE), ["AttemptLost"]),
    ("training", training(), observed(State.RUNNING), []),
    ("training, exited", training(), observed(State.EXITED), ["AttemptLost"]),
    ("training, silent for a while", training(), Seen(silent_s=69, silent_probes=9), []),
    ("training, silent too long", training(), Seen(silent_s=71, silent_probes=3), ["AttemptLost"]),
    ("training, silent, hardly probed", training(), Seen(silent_s=71, silent_probes=2), []),
    (
        "claimed since we looked",
        training(),
        Seen(silent_s=71, silent_probes=9, claimed=False),
        [],
    ),
    (
        "unlisted and silent",
        training(),
        observed(State.ABSENT, absent_s=60, absent_probes=3, silent_s=60),
        ["AttemptLost"],
    ),
    (
        "unlisted and speaking",
        training(),
        observed(State.ABSENT, absent_s=999, absent_probes=99, silent_s=1),
        [],
    ),
    ("notice of preemption", training(), observed(State.RUNNING, preempted=True), ["StopRequested"]),
    (
        "notice of preemption, asked already",
        [*training(), stopping("preempt")],
        observed(State.RUNNING, preempted=True),
        [],
    ),
    ("cancelled, ending", [*training(), CANCEL], Seen(wanted_end_s=59), []),
    ("cancelled, not ending", [*training(), CANCEL], Seen(wanted_end_s=61), ["AttemptLost"]),
    ("asked to stop, not ending", [*training(), stopping("budget")], Seen(wanted_end_s=601), ["AttemptLost"]),
]


@pytest.mark.parametrize(
    ("events", "seen", "expected"), [row[1:] for row in LIVE], ids=[row[0] for row in LIVE]
)
def test_a_live_attempt_goes_on_until_its_end_is_certain(
    events: list[Any], seen: Seen, expected: list[str]
) -> None:
    assert due(view(*events), seen) == expected


def test_a_preempted_machine_is_lost_to_preemption_not_to_us() -> None:
    (event,) = events_due(view(*training()), {1: observed(State.GONE, preempted=True)}, POLICY, 0.5)
    assert isinstance(event, AttemptLost)
    assert event.failure.blame is Blame.PREEMPTION


@pytest.mark.parametrize(("reason", "blame"), [("preempt", Blame.PREEMPTION), ("timeout", Blame.PLATFORM)])
def test_an_attempt_that_does_not_stop_in_time_is_blamed_by_why_it_should(reason: str, blame: Blame) -> None:
    (event,) = events_due(view(*training(), stopping(reason)), {1: Seen(wanted_end_s=601)}, POLICY, 0.5)
    assert isinstance(event, AttemptLost)
    assert (event.failure.code, event.failure.blame) == (reason, blame)


def test_a_time_limit_the_agent_did_not_keep_is_kept_by_the_loop() -> None:
    job = view(*training(), limits={"timeout_s": 100})
    assert due(job, Seen(training_s=170)) == []
    (event,) = events_due(job, {1: Seen(training_s=171)}, POLICY, 0.5)
    assert event == StopRequested(attempt=1, reason="timeout")


GONE = observed(State.GONE, terminated=True)
OVER = [
    ("not terminated yet", [*training(), ended(exit_code=0)], Seen(), []),
    (
        "gone but never terminated: it may come back",
        [*training(), ended(exit_code=0)],
        observed(State.GONE),
        [],
    ),
    ("still running", [*training(), ended(exit_code=0)], observed(State.RUNNING, terminated=True), []),
    ("success", [*training(), ended(exit_code=0)], GONE, ["AttemptReleased", "JobCompleted"]),
    ("user error", [*training(), ended(exit_code=1)], GONE, ["AttemptReleased", "JobFailed"]),
    ("killed", [*training(), ended(signal=9)], Seen(), ["RecoveryStarted"]),
    ("killed, released", [*training(), ended(signal=9), recovering()], GONE, ["AttemptReleased"]),
    (
        "cancelled",
        [*training(), CANCEL, ended(outcome="cancelled")],
        GONE,
        ["AttemptReleased", "JobCancelled"],
    ),
    ("cancelled, not gone", [*training(), CANCEL, ended(outcome="cancelled")], Seen(), []),
    (
        "unlisted for a while",
        [*training(), lost()],
        observed(State.ABSENT, terminated=True, absent_s=59, absent_probes=99),
        ["RecoveryStarted"],
    ),
    (
        "unlisted long enough, in two looks only",
        [*training(), lost()],
        observed(State.ABSENT, terminated=True, absent_s=60, absent_probes=2),
        ["RecoveryStarted"],
    ),
    (
        "unlisted long enough",
        [*training(), lost()],
        observed(State.ABSENT, terminated=True, absent_s=60, absent_probes=3),
        ["AttemptReleased", "RecoveryStarted"],
    ),
    (
        "recovering, cancelled",
        [*training(), lost(), recovering(), released(), CANCEL],
        Seen(),
        ["JobCancelled"],
    ),
]


@pytest.mark.parametrize(
    ("events", "seen", "expected"), [row[1:] for row in OVER], ids=[row[0] for row in OVER]
)
def test_after_an_attempt_the_job_ends_when_nothing_is_left(
    events: list[Any], seen: Seen, expected: list[str]
) -> None:
    assert due(view(*events), seen) == expected


def test_an_old_attempt_is_released_while_the_next_one_trains() -> None:
    job = view(*training(), lost(), recovering(), *training(2))
    (event,) = events_due(job, {1: GONE, 2: observed(State.RUNNING)}, POLICY, 0.5)
    assert isinstance(event, AttemptReleased)
    assert (event.attempt, event.evidence) == (1, "the provider says gone")


def test_a_cancelled_job_without_an_attempt_ends_at_once() -> None:
    assert due(view(CANCEL)) == ["JobCancelled"]


def test_a_finished_job_asks_for_nothing() -> None:
    assert due(view(*training(), ended(exit_code=0), released(), JobCompleted()), GONE) == []


def test_a_recovery_tells_what_the_interruption_cost() -> None:
    # Training began at 5 s, step 6 was saved at 6 s (its own mark), the attempt was lost at 7 s.
    job = view(*training(), saved(6), lost())
    (event,) = events_due(job, {}, POLICY, 1.0)
    assert isinstance(event, RecoveryStarted)
    assert (event.work_lost_s, event.work_lost_microusd) == (1.0, 1000)
    assert event.resume == checkpoint(6)
