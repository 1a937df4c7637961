"""Histories of backends that cannot be reached while jobs are started there: the jobs wait and start later."""

import pytest
from tests.simulation.telling import of, went

from anygpu.events.types import JobCompleted, JobWaited, RecoveryStarted
from anygpu.testing.simulate import History, play
from anygpu.testing.simulation.agents.training import SimScript
from anygpu.testing.simulation.faults import Fault
from anygpu.testing.simulation.scenario import Scenario, ScenarioBackend, SimJob

SCRIPT = SimScript(steps=2, step_s=3.0, save_every=1)


def told(
    *,
    outage: tuple[float, float] = (0, 0),
    launches_fail_until: float = 0,
    fault: Fault = Fault.LAUNCH_NOT_SENT,
    boxes: int = 1,
    jobs: int = 1,
) -> History:
    asked = tuple(SimJob(at=10.0, key=f"key-{number}", script=SCRIPT) for number in range(jobs))
    backends = tuple(
        ScenarioBackend(name=f"box-{number}", price=0, capacity=8, outages=(outage,))
        for number in range(boxes)
    )
    rates = {fault: 1.0}
    history = play(
        Scenario(seed="outage", jobs=asked, backends=backends, rates=rates, faults_until=launches_fail_until)
    )
    assert str(history).endswith("held")
    assert len(of(history, JobCompleted)) == jobs
    assert not any(recovery.counts for recovery in of(history, RecoveryStarted))
    return history


@pytest.mark.parametrize("begin", [9.0, 10.5], ids=["before the offers", "before the launch"])
@pytest.mark.parametrize("outage_s", [3.0, 60.0, 400.0])
def test_a_job_that_is_submitted_in_an_outage_starts_after_it(begin: float, outage_s: float) -> None:
    told(outage=(begin, begin + outage_s), jobs=2)


def test_a_job_outlives_more_failed_launches_than_it_has_retries_and_shows_the_reason() -> None:
    history = told(launches_fail_until=390)
    assert len(went(history)) > 5
    assert any("refuses the connection" in waited.reason for waited in of(history, JobWaited))


@pytest.mark.parametrize("fault", [Fault.LAUNCH_LOST, Fault.LAUNCH_TIMED_OUT, Fault.LAUNCH_LATE])
def test_a_job_outlives_launches_without_an_answer(fault: Fault) -> None:
    history = told(launches_fail_until=700, fault=fault)
    if fault is Fault.LAUNCH_LOST:
        assert len(went(history)) > 4


def test_a_job_tries_the_other_backends_meanwhile() -> None:
    assert {"box-0", "box-1"} <= set(went(told(launches_fail_until=30, boxes=2)))
