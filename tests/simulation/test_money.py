"""Calm histories of money and of moving: what is spent, what is stopped, what is kept, where it goes on."""

from typing import TypeVar

import pytest

from anygpu.events.types import (
    AttemptEnded,
    AttemptLaunching,
    AttemptReleased,
    CheckpointSaved,
    Event,
    HoldEnded,
    HoldStarted,
    JobCompleted,
    JobFailed,
    MeterDiffered,
    RecoveryStarted,
    StopRequested,
)
from anygpu.testing.simulate import History, play
from anygpu.testing.simulation.agents.training import SimScript
from anygpu.testing.simulation.faults import Fault
from anygpu.testing.simulation.providers.backend import SimCloudBackend
from anygpu.testing.simulation.scenario import Scenario, ScenarioBackend, SimJob

E = TypeVar("E", bound=Event)
CLOUD = ScenarioBackend(name="cloud", price=1_000_000, minimum_s=60)
SPOT = ScenarioBackend(name="spot", price=300_000, interruptible=True)
ENDLESS = SimScript(steps=1, step_s=5.0, save_every=2, ends=False)


def told(*places: ScenarioBackend, rates: dict[Fault, float] | None = None, **job: object) -> History:
    asked = SimJob(**{"at": 1.0, "key": "one", "resumable": True, **job})  # type: ignore[arg-type]
    history = play(
        Scenario(seed="calm", jobs=(asked,), backends=places, rates=rates or {}, faults_until=60.0)
    )
    assert str(history).endswith("held")
    return history


def of(history: History, kind: type[E]) -> list[E]:
    return [event for event in history.events if isinstance(event, kind)]


def test_the_ledger_is_what_the_provider_charges() -> None:
    history = told(CLOUD)
    (released,) = of(history, AttemptReleased)
    assert released.usage is not None
    assert released.usage.source == "provider"
    assert released.usage.cost_microusd == history.charged_microusd > 0


def test_a_budget_stops_the_job_after_a_checkpoint_and_is_not_exceeded() -> None:
    history = told(CLOUD, script=ENDLESS, max_cost=50_000)
    kinds = [type(event) for event in history.events]
    (stop,), (failed,) = of(history, StopRequested), of(history, JobFailed)
    assert stop.reason == "budget"
    assert CheckpointSaved in kinds[kinds.index(StopRequested) :]
    assert failed.failure.code == "budget"
    assert failed.failure.message.startswith("the budget is used up: $0.0")
    assert 30_000 < history.charged_microusd <= 50_000


@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_a_meter_that_says_something_else_raises_one_alarm(
    monkeypatch: pytest.MonkeyPatch, factor: float
) -> None:
    monkeypatch.setattr(SimCloudBackend, "meter_factor", factor)
    asked = SimJob(at=1.0, key="one")
    history = play(Scenario(seed="calm", jobs=(asked,), backends=(CLOUD,), rates={}, faults_until=60.0))
    (alarm,) = of(history, MeterDiffered)
    assert alarm.theirs_microusd == round(alarm.ours_microusd * factor)
    assert any(
        "the recorded cost of an attempt differs from what the provider charges" in line
        for line in history.trace
    )


def test_a_job_moves_where_it_is_told_and_goes_on_from_its_checkpoint() -> None:
    history = told(
        SPOT, CLOUD, script=SimScript(steps=20, step_s=5.0, save_every=5), migrate_at=60.0, migrate_to="cloud"
    )
    first, second = of(history, AttemptLaunching)
    (recovery,) = of(history, RecoveryStarted)
    assert [first.offer.backend, second.offer.backend] == ["spot", "cloud"]
    assert (recovery.failure.code, recovery.counts, recovery.delay_s) == ("migrate", False, 0)
    assert second.resume is not None
    assert second.resume.step > 0
    assert of(history, JobCompleted)


def test_a_failed_script_keeps_its_machine_for_as_long_as_was_asked() -> None:
    fails = SimScript(steps=3, step_s=3.0, fails_at=2)
    kept, not_kept = told(CLOUD, script=fails, hold_s=100.0), told(CLOUD, script=fails)
    (hold,) = of(kept, HoldEnded)
    assert hold.reason == "time"
    assert kept.charged_microusd >= not_kept.charged_microusd + 15_000
    assert not of(not_kept, HoldStarted)


def test_a_kept_machine_is_let_go_by_whoever_asks_and_by_the_budget() -> None:
    fails = SimScript(steps=3, step_s=3.0, fails_at=2)
    (asked,) = of(told(CLOUD, script=fails, hold_s=300.0, release_at=60.0), HoldEnded)
    broke = told(CLOUD, script=fails, hold_s=3000.0, max_cost=50_000)
    assert (asked.reason, asked.person) == ("release", "ada")
    assert [event.reason for event in of(broke, HoldEnded)] == ["budget"]
    assert broke.charged_microusd <= 50_000
    assert of(broke, JobFailed)[0].failure.code == "exit_code"


def test_a_job_longer_than_a_machines_life_is_handed_over_at_checkpoints() -> None:
    short = ScenarioBackend(name="short", price=300_000, max_run_s=90)
    history = told(short, script=SimScript(steps=20, step_s=10.0, save_every=2))
    stops = of(history, StopRequested)
    assert {stop.reason for stop in stops} == {"handover"}
    assert len(stops) >= 2
    assert not any(event.counts for event in of(history, RecoveryStarted))
    assert [event.exit_code for event in of(history, AttemptEnded)][-1] == 0


def test_a_place_that_refuses_is_left_for_the_next_one_at_once() -> None:
    full = ScenarioBackend(name="full", price=100_000, quota=0)
    history = told(full, CLOUD)
    first, second = of(history, AttemptLaunching)
    assert [first.offer.backend, second.offer.backend] == ["full", "cloud"]
    assert [event.counts for event in of(history, RecoveryStarted)] == [False]
    assert history.lasted_s < 200


def test_spot_is_taken_only_by_a_job_that_shows_how_it_resumes() -> None:
    (cheap,) = of(told(SPOT, CLOUD), AttemptLaunching)
    (safe,) = of(told(SPOT, CLOUD, resumable=False), AttemptLaunching)
    assert (cheap.offer.backend, safe.offer.backend) == ("spot", "cloud")
