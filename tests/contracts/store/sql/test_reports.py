import pytest
from sqlalchemy import Connection

from anygpu.store.sql.engine.database import Database
from anygpu.store.sql.engine.statements import execute
from anygpu.store.sql.report_store.reports import SqlReports
from anygpu.testing.contracts.log_lines import LogLinesContract, texts
from anygpu.testing.contracts.reports import ReportsContract, report


@pytest.fixture
def reports(database: Database) -> SqlReports:
    return SqlReports(database, log_quota_bytes=64 * 1024)


class TestSqlEvidence(ReportsContract):
    pass


class TestSqlLogLines(LogLinesContract):
    pass


async def test_the_lines_of_an_older_database_are_counted_when_they_are_needed(
    reports: SqlReports, database: Database
) -> None:
    def forget(connection: Connection) -> None:
        execute(connection, "UPDATE attempts SET log_lines = NULL, log_line_start = NULL")
        execute(connection, "UPDATE attempts SET log_marked = NULL, log_marked_ms = NULL")
        execute(connection, "DELETE FROM log_marks")

    await report(reports, 1, logs=b"".join(b"line %d\n" % number for number in range(1, 4001)))
    await database.write(forget)
    assert await texts(reports, -1) == [(4000, "line 4000")]
    await database.write(forget)
    await report(reports, 2, logs=b"more")
    assert await texts(reports, 3999) == [(3999, "line 3999"), (4000, "line 4000"), (4001, "more")]
