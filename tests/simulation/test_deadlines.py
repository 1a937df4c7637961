"""Calm histories of jobs with a deadline: when spot is taken, when it is left, and what is said meanwhile."""

import pytest
from tests.simulation.telling import of, went

from anygpu.events.types import (
    AttemptEnded,
    AttemptLaunching,
    JobCompleted,
    JobWaited,
    RecoveryStarted,
    StopRequested,
)
from anygpu.testing.simulate import History, play
from anygpu.testing.simulation.agents.training import SimScript
from anygpu.testing.simulation.faults import Fault
from anygpu.testing.simulation.scenario import Scenario, ScenarioBackend, SimJob

SPOT = ScenarioBackend(name="spot", price=300_000, interruptible=True)
CLOUD = ScenarioBackend(name="cloud", price=1_000_000, steady=True)
SCRIPT = SimScript(steps=30, step_s=10.0, save_every=2)
WORK_S = 300.0


def told(
    *places: ScenarioBackend, rates: dict[Fault, float] | None = None, until: float = 2000.0, **job: object
) -> History:
    given = {"at": 1.0, "key": "one", "script": SCRIPT, "resumable": True, "expected_s": WORK_S, **job}
    asked = SimJob(**given)  # type: ignore[arg-type]
    history = play(
        Scenario(seed="timed", jobs=(asked,), backends=places, rates=rates or {}, faults_until=until)
    )
    assert str(history).endswith("held")
    assert of(history, JobCompleted)
    return history


def test_with_time_to_spare_a_job_takes_spot_and_stays_there() -> None:
    history = told(SPOT, CLOUD, deadline_s=1200.0)
    assert went(history) == ["spot"]
    assert not of(history, StopRequested)


def test_without_time_to_spare_it_takes_on_demand_at_once() -> None:
    assert went(told(SPOT, CLOUD, deadline_s=WORK_S + 70)) == ["cloud"]


def test_spot_that_never_starts_is_waited_for_as_long_as_the_deadline_allows() -> None:
    history = told(SPOT, CLOUD, deadline_s=1200.0, rates={Fault.NO_CAPACITY: 1.0})
    assert (went(history)[0], went(history)[-1]) == ("spot", "cloud")
    assert any(
        event.reason.startswith("waits for spot until ")
        and event.reason.endswith(" at the latest; then on-demand")
        for event in of(history, JobWaited)
    )


def test_a_job_that_takes_longer_than_it_said_is_moved_to_on_demand_from_its_checkpoint() -> None:
    slow = SimScript(steps=60, step_s=10.0, save_every=2)
    history = told(SPOT, CLOUD, script=slow, deadline_s=900.0)
    (stop,) = of(history, StopRequested)
    (recovery,) = of(history, RecoveryStarted)
    assert (stop.reason, recovery.failure.code, recovery.counts) == ("deadline", "deadline", False)
    assert went(history) == ["spot", "cloud"]
    assert of(history, AttemptLaunching)[1].resume is not None


def test_from_on_demand_it_goes_to_spot_when_that_pays_and_loses_next_to_nothing() -> None:
    history = told(
        SPOT, CLOUD, deadline_s=560.0
    )  # as long as nobody has seen how quickly machines start: too tight
    assert went(history) == ["cloud", "spot"]
    assert [event.reason for event in of(history, StopRequested)] == ["cheaper"]
    (moved,) = of(history, RecoveryStarted)
    assert moved.work_lost_s < 60
    assert not moved.counts


def test_when_nothing_says_how_long_it_takes_the_deadline_is_not_gambled_with() -> None:
    assert went(told(SPOT, CLOUD, deadline_s=5000.0, expected_s=None)) == ["cloud"]


def test_without_a_deadline_the_cheapest_is_taken_as_ever() -> None:
    assert went(told(SPOT, CLOUD)) == ["spot"]


def test_where_there_is_nothing_but_spot_a_deadline_changes_nothing() -> None:
    history = told(SPOT, deadline_s=WORK_S + 70)
    assert went(history) == ["spot"]
    assert not of(history, StopRequested)


@pytest.mark.parametrize("until", [100.0, 1000.0, 2500.0])
def test_taken_back_on_spot_it_is_on_time_on_demand(until: float) -> None:
    history = told(SPOT, CLOUD, deadline_s=1000.0, rates={Fault.PREEMPTED_0: 0.3}, until=until)
    assert len([event for event in of(history, AttemptEnded) if event.exit_code == 0]) == 1
    assert history.lasted_s < 1100
