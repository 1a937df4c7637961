"""Statements run directly on the driver, also where the stored text is damaged."""

import sqlite3
from collections.abc import AsyncIterator

import pytest
from sqlalchemy import Connection

from anygpu.store.sql.engine.inline import InlineDatabase
from anygpu.store.sql.engine.statements import (
    execute,
    execute_many,
    fetch_all,
    fetch_one,
    for_share,
    for_update,
    now_ms,
    placeholders,
)

INSERT = "INSERT INTO properties (name, value) VALUES (?, ?)"
SELECT = "SELECT name, value FROM properties ORDER BY name"


@pytest.fixture
async def connection() -> AsyncIterator[Connection]:
    database = InlineDatabase()
    await database.write(lambda connection: execute(connection, "DELETE FROM properties"))
    yield await database.read(lambda connection: connection)
    await database.close()


def test_rows_are_read_as_they_were_written(connection: Connection) -> None:
    execute_many(connection, INSERT, [("a", "1"), ("b", "2%")])
    assert fetch_all(connection, SELECT) == [("a", "1"), ("b", "2%")]
    assert fetch_one(connection, SELECT) == ("a", "1")
    assert fetch_one(connection, "SELECT 1 FROM properties WHERE name = ?", ("c",)) is None


def test_the_number_of_changed_rows_is_returned(connection: Connection) -> None:
    execute_many(connection, INSERT, [("a", "1"), ("b", "2")])
    assert execute(connection, "UPDATE properties SET value = '3'") == 2
    assert execute(connection, "DELETE FROM properties WHERE name = ?", ("c",)) == 0


def test_text_that_is_not_utf_8_does_not_hide_the_other_rows(connection: Connection) -> None:
    execute(connection, "INSERT INTO properties (name, value) VALUES ('a', CAST(x'ff41' AS TEXT))")
    execute(connection, INSERT, ("b", "2"))
    assert fetch_all(connection, SELECT) == [("a", "\ufffdA"), ("b", "2")]
    assert fetch_one(connection, SELECT) == ("a", "\ufffdA")


def test_other_errors_of_the_database_are_raised(connection: Connection) -> None:
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        fetch_all(connection, "SELECT * FROM absent_table")


def test_a_list_of_placeholders_matches_nothing_if_it_is_empty(connection: Connection) -> None:
    execute_many(connection, INSERT, [("a", "1"), ("b", "2")])
    for wanted, count in ((["a", "b"], 2), (["b"], 1), ([], 0)):
        sql = f"SELECT name FROM properties WHERE name IN ({placeholders(wanted)})"
        assert len(fetch_all(connection, sql, wanted)) == count


def test_sqlite_needs_no_row_locks_and_has_a_clock(connection: Connection) -> None:
    assert for_update(connection) == for_share(connection) == ""
    assert now_ms(connection) > 1_700_000_000_000
