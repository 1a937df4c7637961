"""Seeded histories of the real control loop on the real SQL journal."""

import pytest

from anygpu.testing.simulate import HistoriesSummary, play_seeds
from anygpu.testing.simulation.faults import SQL_ONLY, Fault

HISTORIES = 60  # `make simulate` plays 200 in CI
AT_LEAST = 5  # of each kind

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def on_sql() -> HistoriesSummary:
    return play_seeds(range(50_000, 50_000 + HISTORIES), "sql")


def test_every_history_on_the_sql_journal_keeps_the_invariants(on_sql: HistoriesSummary) -> None:
    assert [str(history) for history in on_sql.failed] == []
    assert on_sql.histories == HISTORIES


@pytest.mark.parametrize(
    "fault",
    [Fault.KILLED_BEFORE_WRITE, Fault.KILLED_AFTER_WRITE, Fault.TWO_PROCESSES, *sorted(SQL_ONLY)],
)
def test_the_sql_journal_saw_processes_die_and_compete(on_sql: HistoriesSummary, fault: Fault) -> None:
    assert on_sql.faults[fault] >= AT_LEAST
