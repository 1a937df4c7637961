"""Which facts follow from what was seen: tables over `events_due`."""

from dataclasses import replace
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

from anygpu.backends.contract import MachineState, Observation
from anygpu.control.policy import ControlPolicy
from anygpu.control.reconcile.decide import events_due
from anygpu.control.reconcile.observation import AttemptObservation, Probe
from anygpu.events.facts import Blame, Failure
from anygpu.events.offers import Offer
from anygpu.events.types import (
    AttemptLaunching,
    AttemptLost,
    AttemptQueued,
    AttemptReleased,
    HoldEnded,
    HoldStarted,
    JobCompleted,
    JobFailed,
    MachineStarted,
    MigrateRequested,
    RecoveryStarted,
    StopRequested,
)
from anygpu.events.view import JobView

POLICY = ControlPolicy()
GONE_BACKEND = AttemptObservation(unreachable="not configured", unreachable_s=60)
MOVE = MigrateRequested(to="elsewhere")
REFUSED = Failure(code="no_capacity", message="full", blame=Blame.LAUNCH)


def observed(state: MachineState, *, preempted: bool = False, **seen: Any) -> AttemptObservation:
    return AttemptObservation(probe=Probe(observation=Observation(state=state, preempted=preempted)), **seen)


def due(job: JobView, *seen: AttemptObservation, policy: ControlPolicy = POLICY) -> list[str]:
    """Names of the events that are due, for attempts 1, 2, … as seen."""
    events = events_due(job, dict(enumerate(seen, 1)), policy, jitter=0.5)
    return [type(event).__name__ for event in events]


LIVE = [
    # what it is, what was seen of it, what follows
    ("intent", [launching()], AttemptObservation(), []),
    ("intent, refused", [launching()], AttemptObservation(refusal=REFUSED), ["AttemptLost"]),
    ("intent, four unknown launches", [launching()], AttemptObservation(launch_failures=4), []),
    ("intent, five unknown launches", [launching()], AttemptObservation(launch_failures=5), ["AttemptLost"]),
    ("intent, list lags", [launching()], observed(MachineState.ABSENT, absent_s=999, silent_s=999), []),
    ("intent, cancelled", [launching(), CANCEL], AttemptObservation(), ["AttemptLost"]),
    ("launched, booting", launched(), observed(MachineState.PENDING, state_s=599, silent_probes=50), []),
    ("launched, never heard", launched(), AttemptObservation(state_s=601, silent_probes=3), ["AttemptLost"]),
    (
        "launched, never heard, hardly probed",
        launched(),
        AttemptObservation(state_s=601, silent_probes=2),
        [],
    ),
    ("launched, gone", launched(), observed(MachineState.GONE), ["AttemptLost"]),
    ("training", training(), observed(MachineState.RUNNING), []),
    ("training, exited", training(), observed(MachineState.EXITED), ["AttemptLost"]),
    ("training, silent for a while", training(), AttemptObservation(silent_s=69, silent_probes=9), []),
    (
        "training, silent too long",
        training(),
        AttemptObservation(silent_s=71, silent_probes=3),
        ["AttemptLost"],
    ),
    ("training, silent, hardly probed", training(), AttemptObservation(silent_s=71, silent_probes=2), []),
    (
        "claimed since we looked",
        training(),
        AttemptObservation(silent_s=71, silent_probes=9, claimed=False),
        [],
    ),
    (
        "unlisted and silent",
        training(),
        observed(MachineState.ABSENT, absent_s=60, absent_probes=3, silent_s=60),
        ["AttemptLost"],
    ),
    (
        "unlisted and speaking",
        training(),
        observed(MachineState.ABSENT, absent_s=999, absent_probes=99, silent_s=1),
        [],
    ),
    ("notice of preemption", training(), observed(MachineState.RUNNING, preempted=True), ["StopRequested"]),
    (
        "notice of preemption, asked already",
        [*training(), stopping("preempt")],
        observed(MachineState.RUNNING, preempted=True),
        [],
    ),
    ("cancelled, ending", [*training(), CANCEL], AttemptObservation(stop_requested_s=59), []),
    (
        "cancelled, not ending",
        [*training(), CANCEL],
        AttemptObservation(stop_requested_s=61),
        ["AttemptLost"],
    ),
    (
        "a step of its start failed for good",
        launched(),
        AttemptObservation(probe=Probe(observation=Observation(state=MachineState.RUNNING, failure=REFUSED))),
        ["AttemptLost"],
    ),
    (
        "a step failed, but its agent speaks",
        training(),
        AttemptObservation(probe=Probe(observation=Observation(state=MachineState.RUNNING, failure=REFUSED))),
        [],
    ),
    (
        "the provider says since when it bills",
        training(),
        AttemptObservation(billing_observation=Observation(state=MachineState.RUNNING, started_at_ms=7)),
        ["MachineStarted"],
    ),
    ("its backend is gone", training(), GONE_BACKEND, ["AttemptStranded"]),
    ("its backend is gone for a moment", [launching()], replace(GONE_BACKEND, unreachable_s=59), []),
    (
        "its backend is gone before the launch",
        [launching()],
        GONE_BACKEND,
        ["AttemptStranded", "AttemptLost"],
    ),
    ("to move, booting", [*launched(), MOVE], AttemptObservation(), ["AttemptLost"]),
    ("to move, training", [*training(), MOVE], AttemptObservation(), ["StopRequested"]),
    ("to move where it is", [*training(), MigrateRequested(to="cloud")], AttemptObservation(), []),
    (
        "to move, cancelled",
        [*training(), MOVE, CANCEL],
        AttemptObservation(stop_requested_s=61),
        ["AttemptLost"],
    ),
    (
        "asked to stop, not ending",
        [*training(), stopping("budget")],
        AttemptObservation(stop_requested_s=601),
        ["AttemptLost"],
    ),
]


@pytest.mark.parametrize(
    ("events", "seen", "expected"), [row[1:] for row in LIVE], ids=[row[0] for row in LIVE]
)
def test_a_live_attempt_goes_on_until_its_end_is_certain(
    events: list[Any], seen: AttemptObservation, expected: list[str]
) -> None:
    assert due(view(*events), seen) == expected


def test_a_preempted_machine_is_lost_to_preemption_not_to_us() -> None:
    (event,) = events_due(view(*training()), {1: observed(MachineState.GONE, preempted=True)}, POLICY, 0.5)
    assert isinstance(event, AttemptLost)
    assert event.failure.blame is Blame.PREEMPTION


@pytest.mark.parametrize(("reason", "blame"), [("preempt", Blame.PREEMPTION), ("timeout", Blame.PLATFORM)])
def test_an_attempt_that_does_not_stop_in_time_is_blamed_by_why_it_should(reason: str, blame: Blame) -> None:
    (event,) = events_due(
        view(*training(), stopping(reason)), {1: AttemptObservation(stop_requested_s=601)}, POLICY, 0.5
    )
    assert isinstance(event, AttemptLost)
    assert (event.failure.code, event.failure.blame) == (reason, blame)


def test_a_time_limit_the_agent_did_not_keep_is_kept_by_the_loop() -> None:
    job = view(*training(), limits={"timeout_s": 100})
    assert due(job, AttemptObservation(training_s=170)) == []
    (event,) = events_due(job, {1: AttemptObservation(training_s=171)}, POLICY, 0.5)
    assert event == StopRequested(attempt=1, reason="timeout")


def test_a_job_that_names_no_time_limit_has_the_platforms_on_machines_that_cost() -> None:
    free, paid = Offer(backend="box"), Offer(backend="cloud", price_microusd_per_hour=1)
    spec = view(*training()).spec
    assert POLICY.time_limit_s(spec, free) is None
    assert POLICY.time_limit_s(spec, paid) == 25_200
    limited = view(*training(), limits={"timeout_s": 100}).spec
    assert POLICY.time_limit_s(limited, free) == POLICY.time_limit_s(limited, paid) == 100


GONE = observed(MachineState.GONE, terminated=True)
OVER = [
    ("not terminated yet", [*training(), ended(exit_code=0)], AttemptObservation(), []),
    (
        "gone but never terminated: it may come back",
        [*training(), ended(exit_code=0)],
        observed(MachineState.GONE),
        [],
    ),
    ("still running", [*training(), ended(exit_code=0)], observed(MachineState.RUNNING, terminated=True), []),
    ("success", [*training(), ended(exit_code=0)], GONE, ["AttemptReleased", "JobCompleted"]),
    ("user error", [*training(), ended(exit_code=1)], GONE, ["AttemptReleased", "JobFailed"]),
    ("killed", [*training(), ended(signal=9)], AttemptObservation(), ["RecoveryStarted"]),
    ("killed, released", [*training(), ended(signal=9), recovering()], GONE, ["AttemptReleased"]),
    (
        "cancelled",
        [*training(), CANCEL, ended(outcome="cancelled")],
        GONE,
        ["AttemptReleased", "JobCancelled"],
    ),
    ("cancelled, not gone", [*training(), CANCEL, ended(outcome="cancelled")], AttemptObservation(), []),
    (
        "unlisted for a while",
        [*training(), lost()],
        observed(MachineState.ABSENT, terminated=True, absent_s=59, absent_probes=99),
        ["RecoveryStarted"],
    ),
    (
        "unlisted long enough, in two looks only",
        [*training(), lost()],
        observed(MachineState.ABSENT, terminated=True, absent_s=60, absent_probes=2),
        ["RecoveryStarted"],
    ),
    (
        "unlisted long enough",
        [*training(), lost()],
        observed(MachineState.ABSENT, terminated=True, absent_s=60, absent_probes=3),
        ["AttemptReleased", "RecoveryStarted"],
    ),
    (
        "recovering, cancelled",
        [*training(), lost(), recovering(), released(), CANCEL],
        AttemptObservation(),
        ["JobCancelled"],
    ),
]


@pytest.mark.parametrize(
    ("events", "seen", "expected"), [row[1:] for row in OVER], ids=[row[0] for row in OVER]
)
def test_after_an_attempt_the_job_ends_when_nothing_is_left(
    events: list[Any], seen: AttemptObservation, expected: list[str]
) -> None:
    assert due(view(*events), seen) == expected


def test_an_old_attempt_is_released_while_the_next_one_trains() -> None:
    job = view(*training(), lost(), recovering(), *training(2))
    (event,) = events_due(job, {1: GONE, 2: observed(MachineState.RUNNING)}, POLICY, 0.5)
    assert isinstance(event, AttemptReleased)
    assert (event.attempt, event.evidence) == (1, "the provider says that the machine is gone")


def test_a_cancelled_job_without_an_attempt_ends_at_once() -> None:
    assert due(view(CANCEL)) == ["JobCancelled"]


@pytest.mark.parametrize(
    ("events", "detail", "now_s", "expected"),
    [
        (launched(), "busy", 3, []),
        (launched(), "busy", 10, ["busy"]),
        (launched(), "", 10, []),
        ([*launched(), AttemptQueued(attempt=1, reason="busy")], "busy", 100, []),
        ([*launched(), AttemptQueued(attempt=1, reason="busy")], "a\x1bb", 30, []),
        ([*launched(), AttemptQueued(attempt=1, reason="busy")], "a\x1bb", 100, ["a\\x1bb"]),
        (training(), "busy", 100, []),
    ],
)
def test_an_attempt_in_the_queue_of_its_engine_says_why(
    events: list[Any], detail: str, now_s: int, expected: list[str]
) -> None:
    seen = Observation(state=MachineState.PENDING, queued=True, detail=detail)
    observations = {1: AttemptObservation(probe=Probe(observation=seen))}
    due = events_due(view(*events), observations, POLICY, 0.5, now_ms=now_s * 1000)
    assert [event.reason for event in due if isinstance(event, AttemptQueued)] == expected
    assert len(due) == len(expected)


def test_a_finished_job_asks_for_nothing() -> None:
    assert due(view(*training(), ended(exit_code=0), released(), JobCompleted()), GONE) == []


def test_a_recovery_tells_what_the_interruption_cost() -> None:
    # Training began at 5 s, step 6 was saved at 6 s (its own mark), the attempt was lost at 7 s.
    job = view(*training(), saved(6), lost())
    (event,) = events_due(job, {}, POLICY, 1.0)
    assert isinstance(event, RecoveryStarted)
    assert (event.work_lost_s, event.work_lost_microusd) == (1.0, 1000)
    assert event.resume == checkpoint(6)
    assert event.evidence == "silent"


BUDGET = {"limits": {"max_cost_microusd": 300_000}}  # five minutes at a thousand micro-dollars a second
SPENDING = [
    ("far from it", training(), 170, []),
    ("near it", training(), 181, ["StopRequested"]),
    ("near it, asked already", [*training(), stopping("budget")], 240, []),
    ("at it, saved or not", [*training(), stopping("budget")], 281, ["AttemptLost"]),
    ("near it, booting", launched(), 181, ["AttemptLost"]),
]


@pytest.mark.parametrize(
    ("events", "billed_s", "expected"), [row[1:] for row in SPENDING], ids=[row[0] for row in SPENDING]
)
def test_a_budget_is_kept_by_saving_first_and_ending_at_the_latest(
    events: list[Any], billed_s: float, expected: list[str]
) -> None:
    assert due(view(*events, **BUDGET), AttemptObservation(billed_s=billed_s)) == expected


def test_a_job_that_used_up_its_budget_fails_and_says_so() -> None:
    job = view(*training(), stopping("budget"), ended(outcome="stopped"), **BUDGET)
    gone = Observation(state=MachineState.GONE, started_at_ms=0, ended_at_ms=290_000)
    seen = AttemptObservation(probe=Probe(observation=gone), billing_observation=gone, terminated=True)
    released, failed = events_due(job, {1: seen}, POLICY, 0.5)
    assert isinstance(released, AttemptReleased)
    assert isinstance(failed, JobFailed)
    assert failed.failure.message.startswith("the budget is used up: $0.29 of $0.30 spent; ")


def test_a_machine_near_the_end_of_its_life_is_left_at_a_checkpoint() -> None:
    offer = Offer(backend="cloud", max_run_s=3600)
    first = AttemptLaunching(attempt=1, name="a", offer=offer, ticket_sha256="")
    job = view(first, *training()[1:])
    assert due(job, AttemptObservation(billed_s=3299)) == []
    (event,) = events_due(job, {1: AttemptObservation(billed_s=3301)}, POLICY, 0.5)
    assert event == StopRequested(attempt=1, reason="handover")


def test_the_lease_of_the_offer_decides_how_much_silence_is_too_much() -> None:
    offer = Offer(backend="cloud", lease_s=900)
    job = view(AttemptLaunching(attempt=1, name="a", offer=offer, ticket_sha256=""), *training()[1:])
    assert due(job, AttemptObservation(silent_s=909, silent_probes=9)) == []
    assert due(job, AttemptObservation(silent_s=911, silent_probes=9)) == ["AttemptLost"]


HOLD = {"placement": {"hold_on_failure_s": 60}}
KEPT = [*training(), ended(exit_code=1), HoldStarted(attempt=1, until_ms=90_000)]
HOLDING = [
    ("the script failed", KEPT[:-1], AttemptObservation(), ["HoldStarted"]),
    ("the script succeeded", [*training(), ended(exit_code=0)], AttemptObservation(), []),
    ("the machine failed", [*training(), lost()], AttemptObservation(), ["RecoveryStarted"]),
    ("kept", KEPT, AttemptObservation(held_s=59), []),
    ("kept long enough", KEPT, AttemptObservation(held_s=60), ["HoldEnded"]),
    ("it went away by itself", KEPT, observed(MachineState.GONE), ["HoldEnded"]),
    ("cancelled", [*KEPT, CANCEL], AttemptObservation(held_s=1), []),
    ("let go", [*KEPT, HoldEnded(attempt=1, reason="release")], GONE, ["AttemptReleased", "JobFailed"]),
]


@pytest.mark.parametrize(
    ("events", "seen", "expected"), [row[1:] for row in HOLDING], ids=[row[0] for row in HOLDING]
)
def test_the_machine_of_a_failed_script_is_kept_as_long_as_was_asked(
    events: list[Any], seen: AttemptObservation, expected: list[str]
) -> None:
    assert due(view(*events, **HOLD), seen) == expected


def test_a_kept_machine_is_let_go_when_the_budget_is() -> None:
    job = view(*KEPT, **HOLD, **BUDGET)
    (event,) = events_due(job, {1: AttemptObservation(held_s=1, billed_s=281)}, POLICY, 0.5)
    assert event == HoldEnded(attempt=1, reason="budget")


def test_a_machine_of_ones_own_is_not_kept() -> None:
    own = AttemptLaunching(attempt=1, name="a", offer=Offer(backend="local"), ticket_sha256="")
    assert due(view(own, *training()[1:], ended(exit_code=1), **HOLD), AttemptObservation()) == []


def test_a_price_that_is_not_the_offers_is_remembered() -> None:
    books = Observation(state=MachineState.RUNNING, started_at_ms=7, price_microusd_per_hour=9)
    (event,) = events_due(view(*training()), {1: AttemptObservation(billing_observation=books)}, POLICY, 0.5)
    assert event == MachineStarted(attempt=1, started_at_ms=7, price_microusd_per_hour=9)
