import pytest

from anygpu.testing.contracts.finding import FindingContract
from anygpu.testing.contracts.journal import JournalContract
from anygpu.testing.memory import MemoryJournal


@pytest.fixture
def journal() -> MemoryJournal:
    return MemoryJournal()


class TestMemoryJournal(JournalContract):
    pass


class TestFindingInMemory(FindingContract):
    pass
