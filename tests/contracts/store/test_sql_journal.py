import pytest

from anygpu.store.sql.database import Database
from anygpu.store.sql.journal import SqlJournal
from anygpu.testing.contracts.finding import FindingContract
from anygpu.testing.contracts.journal import JournalContract


@pytest.fixture
def journal(database: Database) -> SqlJournal:
    return SqlJournal(database)


class TestSqlJournal(JournalContract):
    pass


class TestFindingInSql(FindingContract):
    pass
