"""Calm histories of jobs that run while better places open: who is told, who goes, and who stays."""

from dataclasses import replace

from tests.simulation.telling import of, went

from anygpu.events.types import (
    AttemptLaunching,
    AttemptReleased,
    BetterPlaceFound,
    JobCompleted,
    RecoveryStarted,
    StopRequested,
)
from anygpu.plan.offers.migration import MigrationMode
from anygpu.testing.simulate import History, play
from anygpu.testing.simulation.agents.training import SimScript
from anygpu.testing.simulation.scenario import POLICY, Scenario, ScenarioBackend, SimJob

DEAR = ScenarioBackend(name="dear", price=3_000_000)
CHEAP = ScenarioBackend(name="cheap", price=600_000, opens_at=300)
SPOT = ScenarioBackend(name="spot", price=100_000, opens_at=700, interruptible=True)
BOX = ScenarioBackend(name="box", price=0, capacity=8, opens_at=400)
SCRIPT = SimScript(steps=200, step_s=6.0, save_every=3, tells=True)


def told(
    *places: ScenarioBackend, mode: MigrationMode = "act", script: SimScript = SCRIPT, **job: object
) -> History:
    asked = SimJob(**{"at": 1.0, "key": "one", "script": script, "resumable": True, **job})  # type: ignore[arg-type]
    policy = replace(POLICY, migration=replace(POLICY.migration, mode=mode))
    history = play(Scenario(seed="moves", jobs=(asked,), backends=places, policy=policy, faults_until=2500.0))
    assert str(history).endswith("held")
    assert of(history, JobCompleted)
    return history


def test_a_job_goes_to_a_cheaper_machine_from_its_checkpoint_and_pays_less() -> None:
    history = told(DEAR, CHEAP)
    stayed = told(DEAR)
    assert went(history) == ["dear", "cheap"]
    (stop,) = of(history, StopRequested)
    (recovery,) = of(history, RecoveryStarted)
    assert (stop.reason, recovery.counts) == ("cheaper", False)
    assert recovery.work_lost_s < 60
    assert of(history, AttemptLaunching)[1].resume is not None
    assert history.charged_microusd < 0.6 * stayed.charged_microusd
    usages = [event.usage for event in of(history, AttemptReleased)]
    assert history.charged_microusd == sum(usage.cost_microusd for usage in usages if usage is not None)


def test_the_figures_it_went_by_come_true() -> None:
    (found,) = of(told(DEAR, CHEAP), BetterPlaceFound)
    assert found.better is not None
    saved = told(DEAR).charged_microusd - told(DEAR, CHEAP).charged_microusd
    assert found.better.saves_low_microusd < saved < 1.3 * found.better.saves_microusd


def test_a_machine_of_ones_own_that_becomes_free_is_taken() -> None:
    assert went(told(DEAR, BOX)) == ["dear", "box"]


def test_by_default_it_is_only_told_and_stays() -> None:
    history = told(DEAR, CHEAP, mode="advise")
    assert went(history) == ["dear"]
    assert of(history, BetterPlaceFound)
    assert not of(history, StopRequested)


def test_nobody_looks_where_nobody_may() -> None:
    assert not of(told(DEAR, CHEAP, mode="never"), BetterPlaceFound)


def test_a_job_that_saves_nothing_stays() -> None:
    history = told(DEAR, CHEAP, script=replace(SCRIPT, save_every=1000))
    assert went(history) == ["dear"]
    assert not of(history, BetterPlaceFound)


def test_a_job_that_does_not_say_how_long_it_is_stays() -> None:
    assert went(told(DEAR, CHEAP, script=replace(SCRIPT, tells=False))) == ["dear"]


def test_a_job_that_is_nearly_done_stays() -> None:
    assert went(told(DEAR, CHEAP, script=replace(SCRIPT, steps=60))) == ["dear"]


def test_it_may_go_on_to_a_third_place_but_not_at_once() -> None:
    history = told(DEAR, CHEAP, SPOT, script=replace(SCRIPT, steps=350))
    assert went(history) == ["dear", "cheap", "spot"]
    assert [stop.reason for stop in of(history, StopRequested)] == ["cheaper", "cheaper"]
