"""Each scripted history, with its control process killed at every single write: just before it, and just after."""

from dataclasses import replace

import pytest
from tests.simulation.scripted import SCRIPTED

from anygpu.testing.simulate import play
from anygpu.testing.simulation.crashes import CrashPoint
from anygpu.testing.simulation.scenario import Scenario

scripted = pytest.mark.parametrize("scenario", SCRIPTED, ids=lambda scenario: scenario.seed)


def test_there_are_more_than_twenty_scripted_histories() -> None:
    assert len({scenario.seed for scenario in SCRIPTED}) == len(SCRIPTED) > 20


@scripted
def test_a_scripted_history_holds_and_has_the_faults_it_is_named_for(scenario: Scenario) -> None:
    history = play(scenario)
    assert not history.failed, str(history)
    assert all(history.faults[fault] for fault in scenario.rates)


@scripted
def test_a_crash_at_any_write_loses_nothing(scenario: Scenario) -> None:
    writes = play(scenario).writes
    crashes = [CrashPoint(number, before) for number in range(1, writes + 1) for before in (True, False)]
    failed = [h for h in (play(replace(scenario, crash=crash)) for crash in crashes) if h.failed]
    assert [str(history) for history in failed] == []
    assert writes >= 15
