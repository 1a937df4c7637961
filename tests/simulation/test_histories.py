"""Thousands of seeded histories of the real control loop, on the memory journal and on the real SQL."""

from collections.abc import Iterator

import pytest

from anygpu.testing.faults import Fault
from anygpu.testing.simulate import Summary, play_seeds

MEMORY_HISTORIES, SQL_HISTORIES = 1_200, 200
AT_LEAST = 20  # of each kind, over the memory run

# All histories are played before the first test: on a busy machine that takes longer than a test may hang.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def on_memory() -> Iterator[Summary]:
    return play_seeds(range(MEMORY_HISTORIES))


@pytest.fixture(scope="module")
def on_sql() -> Iterator[Summary]:
    return play_seeds(range(50_000, 50_000 + SQL_HISTORIES), "sql")


def test_every_history_on_the_memory_journal_keeps_the_invariants(on_memory: Summary) -> None:
    assert [str(history) for history in on_memory.failed] == []
    assert on_memory.histories == MEMORY_HISTORIES


def test_every_history_on_the_sql_journal_keeps_the_invariants(on_sql: Summary) -> None:
    assert [str(history) for history in on_sql.failed] == []
    assert on_sql.histories == SQL_HISTORIES


def test_the_queue_made_room_for_jobs(on_memory: Summary) -> None:
    assert on_memory.made_room >= AT_LEAST


@pytest.mark.parametrize("fault", list(Fault))
def test_every_kind_of_fault_occurred(on_memory: Summary, fault: Fault) -> None:
    assert on_memory.faults[fault] >= AT_LEAST


@pytest.mark.parametrize("fault", [Fault.KILLED_BEFORE_WRITE, Fault.KILLED_AFTER_WRITE, Fault.TWO_PROCESSES])
def test_the_sql_journal_saw_processes_die_and_compete(on_sql: Summary, fault: Fault) -> None:
    assert on_sql.faults[fault] >= AT_LEAST
