"""What a control process remembers of an attempt, by its own clock."""

from tests.unit.control.jobs_in_states import launching, view

from anygpu.backends.contract import MachineState, Observation
from anygpu.control.reconcile.observation import AttemptTracker
from anygpu.store.reports import ReportState

ABSENT = Observation(state=MachineState.ABSENT)


def memory(at: float) -> AttemptTracker:
    attempt = view(launching()).attempts[0]
    return AttemptTracker.begin(attempt, ReportState(), at)


def test_time_in_which_nobody_looked_does_not_count_as_absence() -> None:
    remembered = memory(0)
    for at in (10, 12, 14):
        remembered.record_probe(ABSENT, "", at)
    seen = remembered.observe(now=100)  # the process stood still
    assert (seen.absent_s, seen.absent_probes, seen.absent_ago_s) == (4, 3, 90)


def test_a_look_that_failed_or_found_it_begins_the_absence_anew() -> None:
    remembered = memory(0)
    remembered.record_probe(ABSENT, "", 10)
    remembered.record_probe(None, "no answer", 20)
    remembered.record_probe(ABSENT, "", 30)
    assert (remembered.observe(40).absent_s, remembered.observe(40).absent_probes) == (0, 1)


def test_an_answer_that_came_late_is_as_old_as_its_question() -> None:
    remembered = memory(0)
    for at in (10, 12):
        remembered.record_probe(ABSENT, "", at, asked=at - 1)
    remembered.record_probe(ABSENT, "", 100, asked=14)  # the process stood still before it heard the answer
    seen = remembered.observe(now=100)
    assert (seen.absent_s, seen.absent_probes) == (4, 3)


def starting(limit_s: float | None) -> Observation:
    return Observation(state=MachineState.PENDING, start_limit_s=limit_s)


def test_the_start_of_a_machine_within_the_limit_of_its_backend_is_no_late_start_of_its_agent() -> None:
    remembered = memory(0)
    for at in (10, 600, 1700):
        remembered.record_probe(starting(1800), "", at)
    remembered.record_probe(None, "no answer", 1750)
    assert remembered.observe(1760).state_s == 10
    remembered.record_probe(Observation(state=MachineState.RUNNING), "", 1790)
    assert remembered.observe(1850).state_s == 100


def test_a_machine_that_starts_for_longer_than_the_limit_of_its_backend_is_late() -> None:
    remembered = memory(0)
    for at in (10, 1800, 1900, 2500):
        remembered.record_probe(starting(1800), "", at)
    assert remembered.observe(2500).state_s == 700


def test_a_machine_without_a_limit_of_its_backend_is_late_from_the_launch_on() -> None:
    remembered = memory(0)
    for at in (10, 590):
        remembered.record_probe(starting(None), "", at)
    assert remembered.observe(600).state_s == 600


def test_the_limit_of_a_start_begins_anew_after_the_queue() -> None:
    remembered = memory(0)
    remembered.record_probe(starting(100), "", 10)
    remembered.record_probe(Observation(state=MachineState.PENDING, queued=True), "", 500)
    for at in (510, 600, 650):
        remembered.record_probe(starting(100), "", at)
    assert remembered.observe(650).state_s == 50
