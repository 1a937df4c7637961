import pytest

from anygpu.errors import NotFound
from anygpu.events.types import JobSubmitted
from anygpu.spec.load import from_mapping
from anygpu.store.scope import SYSTEM, Scope
from anygpu.store.sql.engine.database import Database
from anygpu.store.sql.journal import SqlJournal
from anygpu.testing.contracts.job_deletion import JobDeletionContract
from anygpu.testing.contracts.job_search import JobSearchContract
from anygpu.testing.contracts.journal import JournalContract


@pytest.fixture
def journal(database: Database) -> SqlJournal:
    return SqlJournal(database)


class TestSqlJournal(JournalContract):
    pass


class TestDeletingInSql(JobDeletionContract):
    pass


class TestFindingInSql(JobSearchContract):
    pass


class TestSqlJournalAlone(JournalContract, JobDeletionContract):
    """The only one that writes: it answers from what it committed."""

    @pytest.fixture
    def journal(self, database: Database) -> SqlJournal:
        return SqlJournal(database, alone=True)

    async def test_a_job_of_others_is_not_found_although_it_is_remembered(self, journal: SqlJournal) -> None:
        lab, other = (Scope(organisation="lab", project=name) for name in ("ours", "theirs"))
        await journal.submit(lab, "j", JobSubmitted(spec=from_mapping({"command": "true"})), at_ms=1)
        assert (await journal.view(lab, "j")).id == (await journal.view(SYSTEM, "j")).id == "j"
        with pytest.raises(NotFound):
            await journal.view(other, "j")
