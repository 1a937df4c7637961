"""A seed is a history: the same one in every process, on every run."""

import os
import subprocess
import sys

import pytest

from anygpu.testing.simulate import main, play
from anygpu.testing.simulation import row_damage
from anygpu.testing.simulation.scenario import scenario_for_seed


@pytest.mark.parametrize("seed", [7, 100, 361])
def test_the_same_seed_gives_the_same_trace(seed: int) -> None:
    first, second = play(scenario_for_seed(seed)), play(scenario_for_seed(seed))
    assert first.trace == second.trace
    assert first.faults == second.faults


def test_another_seed_gives_another_trace() -> None:
    assert play(scenario_for_seed(7)).trace_hash != play(scenario_for_seed(8)).trace_hash


def test_the_trace_does_not_depend_on_the_interpreters_hash_seed() -> None:
    command = [sys.executable, "-m", "anygpu.testing.simulate", "--replay", "100"]
    told = [
        subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": number}, capture_output=True, check=True)
        for number in ("1", "2")
    ]
    assert told[0].stdout == told[1].stdout
    assert play(scenario_for_seed(100)).trace_hash in told[0].stdout.decode()


def test_the_journal_does_not_change_the_story(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both journals mean the same, so the same seed lives through the same history on either.

    Rows are left undamaged, because only the journal in SQL has them.
    """
    for rate in ("VIEW_RATE", "EVENT_RATE"):
        monkeypatch.setattr(row_damage, rate, 0.0)
    assert play(scenario_for_seed(361), "sql").trace_hash == play(scenario_for_seed(361)).trace_hash


def test_the_command_counts_faults_and_says_how_many_histories_held(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--histories", "3", "--seed", "20"]) == 0
    said = capsys.readouterr().out
    assert "3 histories, 0 failed" in said
    assert "process killed before a write" in said
