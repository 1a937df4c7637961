"""Seeded histories of the real control loop on the memory journal; `make simulate` plays thousands more."""

import pytest

from anygpu.testing.simulate import HistoriesSummary, play_seeds
from anygpu.testing.simulation.faults import SQL_ONLY, Fault

HISTORIES = 200  # `make simulate` plays 2,000 in CI
AT_LEAST = 5  # of each kind

# All histories are played before the first test: on a busy machine that takes longer than a test may hang.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def on_memory() -> HistoriesSummary:
    return play_seeds(range(HISTORIES))


def test_every_history_on_the_memory_journal_keeps_the_invariants(on_memory: HistoriesSummary) -> None:
    assert [str(history) for history in on_memory.failed] == []
    assert on_memory.histories == HISTORIES


def test_the_queue_made_room_for_jobs(on_memory: HistoriesSummary) -> None:
    assert on_memory.preemptions >= AT_LEAST


@pytest.mark.parametrize("fault", sorted({*Fault} - SQL_ONLY))
def test_every_kind_of_fault_occurred(on_memory: HistoriesSummary, fault: Fault) -> None:
    assert on_memory.faults[fault] >= AT_LEAST
