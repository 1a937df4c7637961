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
