import pytest

from anygpu.store.sql.database import Database
from anygpu.store.sql.reports import SqlReports
from anygpu.testing.contracts.reports import ReportsContract


@pytest.fixture
def reports(database: Database) -> SqlReports:
    return SqlReports(database, log_quota_bytes=64 * 1024)


class TestSqlEvidence(ReportsContract):
    pass
