"""Run SQL with `?` parameters on SQLite and PostgreSQL, directly on the driver.

SQLAlchemy manages connections, pooling and the schema. Statements do not use its result objects, because for
the many small queries that store reports, creating them takes ten times as long as the query itself.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from sqlalchemy import Connection

Row = tuple[Any, ...]
Values = Sequence[Any]


def fetch_all(connection: Connection, sql: str, values: Values = ()) -> list[Row]:
    try:
        rows: list[Row] = _driver(connection).execute(_dialect_sql(connection, sql), values).fetchall()
    except sqlite3.OperationalError as error:
        rows = _fetch_replacing(connection, sql, values, error)
    return rows


def fetch_one(connection: Connection, sql: str, values: Values = ()) -> Row | None:
    try:
        row: Row | None = _driver(connection).execute(_dialect_sql(connection, sql), values).fetchone()
    except sqlite3.OperationalError as error:
        row = next(iter(_fetch_replacing(connection, sql, values, error)), None)
    return row


def _fetch_replacing(
    connection: Connection, sql: str, values: Values, error: sqlite3.OperationalError
) -> list[Row]:
    """Run a query again whose result has text that is not UTF-8. The invalid bytes are replaced.

    Such a text is damaged. The driver would not return the other rows either. Other errors are raised again.
    """
    if "decode to UTF-8" not in str(error) or not sql.lstrip().startswith("SELECT"):
        raise error
    driver = _driver(connection)
    usual, driver.text_factory = driver.text_factory, lambda data: data.decode("utf-8", "replace")
    try:
        rows: list[Row] = driver.execute(sql, values).fetchall()
    finally:
        driver.text_factory = usual
    return rows


def execute(connection: Connection, sql: str, values: Values = ()) -> int:
    """Execute a statement and return the number of changed rows."""
    count: int = _driver(connection).execute(_dialect_sql(connection, sql), values).rowcount
    return count


def execute_many(connection: Connection, sql: str, many: Iterable[Values]) -> None:
    cursor = _driver(connection).cursor()
    try:
        cursor.executemany(_dialect_sql(connection, sql), list(many))
    finally:
        cursor.close()


def placeholders(values: Sequence[object]) -> str:
    """Return `?, ?, ?` for an IN list. Without values return NULL, which matches nothing."""
    return ", ".join("?" * len(values)) or "NULL"


def for_update(connection: Connection) -> str:
    """Return the SQL suffix that locks the selected rows. Empty on SQLite, which has a single writer."""
    return " FOR UPDATE" if is_postgres(connection) else ""


def for_update_unless_locked(connection: Connection) -> str:
    """Return the SQL suffix that locks the selected rows, and leaves out rows that another transaction has locked."""
    return " FOR UPDATE SKIP LOCKED" if is_postgres(connection) else ""


def for_share(connection: Connection) -> str:
    return " FOR SHARE" if is_postgres(connection) else ""


def is_postgres(connection: Connection) -> bool:
    return connection.dialect.name == "postgresql"


def now_ms(connection: Connection) -> int:
    """Return the time by the database's clock, which all processes share.

    Simulations provide their own clock.
    """
    clock = connection.info.get("now_ms")
    if clock is not None:
        return int(clock())
    sql = _PG_NOW if is_postgres(connection) else _SQLITE_NOW
    row = fetch_one(connection, sql)
    return int(row[0]) if row else 0


_PG_NOW = "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)"
_SQLITE_NOW = "SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"


def _driver(connection: Connection) -> Any:
    return connection.connection.driver_connection


def _dialect_sql(connection: Connection, sql: str) -> str:
    return _for_psycopg(sql) if is_postgres(connection) else sql


@cache
def _for_psycopg(sql: str) -> str:
    return sql.replace("%", "%%").replace("?", "%s")
