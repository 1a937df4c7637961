"""What happened to users of other tools does not happen here: their published bugs, played as histories."""

from collections import Counter
from collections.abc import Iterator

from tests.simulation import published

from anygpu.events.types import (
    AttemptLaunching,
    CancelRequested,
    Event,
    JobCancelled,
    JobCompleted,
    JobFailed,
    RecoveryStarted,
)
from anygpu.testing.simulate import History, play
from anygpu.testing.simulation.faults import Fault
from anygpu.testing.simulation.scenario import Scenario


def held(scenarios: Iterator[Scenario]) -> list[History]:
    """Every history, each of which kept every invariant."""
    histories = [play(scenario) for scenario in scenarios]
    assert [str(history) for history in histories if history.failed] == []
    return histories


def kinds(history: History) -> list[type[Event]]:
    return [type(event) for event in history.events]


def test_a_cancel_during_recovery_leaves_no_machine() -> None:
    during = 0
    for history in held(published.cancelled_during_recovery()):
        told = kinds(history)
        if CancelRequested in told:
            before = told[: told.index(CancelRequested)]
            during += before.count(RecoveryStarted) >= before.count(AttemptLaunching) > 0
            assert JobCancelled in told
    assert during >= 3


def test_a_machine_taken_back_while_it_is_replaced_does_not_make_two_that_train() -> None:
    histories = held(published.preempted_while_relaunching())
    assert sum(history.faults[Fault.PREEMPTED_PROVISIONING] for history in histories) >= 10
    assert all(JobCompleted in kinds(history) for history in histories)


def test_a_restart_at_any_write_launches_nothing_twice() -> None:
    for history in held(published.restarted_while_launching()):
        assert kinds(history).count(AttemptLaunching) == 1
        assert sum(" created " in line for line in history.trace) == 1


def test_failing_status_calls_leave_a_healthy_job_alone() -> None:
    for history in held(published.status_calls_fail()):
        assert history.faults[Fault.PROBE_FAILED] >= 25
        assert kinds(history).count(AttemptLaunching) == 1
        assert JobCompleted in kinds(history)


def test_a_job_whose_machine_does_not_exist_yet_is_not_taken_for_a_failed_one() -> None:
    for history in held(published.recovered_before_it_was_created()):
        assert JobFailed not in kinds(history)
        assert JobCompleted in kinds(history)


def test_twins_of_a_launch_that_timed_out_are_ended_and_paid_for_in_the_ledger() -> None:
    faults: Counter[Fault] = Counter()
    for history in held(published.timed_out_after_success_while_lists_lag()):
        faults.update(history.faults)
    assert faults[Fault.TWIN] >= 5
