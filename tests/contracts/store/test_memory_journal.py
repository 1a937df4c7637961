import pytest

from anygpu.testing.contracts.job_deletion import JobDeletionContract
from anygpu.testing.contracts.job_search import JobSearchContract
from anygpu.testing.contracts.journal import JournalContract
from anygpu.testing.memory.journal import MemoryJournal


@pytest.fixture
def journal() -> MemoryJournal:
    return MemoryJournal()


class TestMemoryJournal(JournalContract, JobDeletionContract):
    pass


class TestFindingInMemory(JobSearchContract):
    pass
