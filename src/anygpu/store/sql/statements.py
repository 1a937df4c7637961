"""SQL as both databases understand it: `?` for parameters, straight to the driver.

SQLAlchemy owns connections, pooling and the schema; a look-up through its result objects costs ten times the
look-up itself, and ingest is nothing but small statements.
"""

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from sqlalchemy import Connection

Row = tuple[Any, ...]
Values = Sequence[Any]


def fetch_all(connection: Connection, sql: str, values: Values = ()) -> list[Row]:
    found: list[Row] = _driver(connection).execute(_dialect_sql(connection, sql), values).fetchall()
    return found


def fetch_one(connection: Connection, sql: str, values: Values = ()) -> Row | None:
    found: Row | None = _driver(connection).execute(_dialect_sql(connection, sql), values).fetchone()
    return found


def execute(connection: Connection, sql: str, values: Values = ()) -> int:
    """How many rows it changed."""
    count: int = _driver(connection).execute(_dialect_sql(connection, sql), values).rowcount
    return count


def execute_many(connection: Connection, sql: str, many: Iterable[Values]) -> None:
    cursor = _driver(connection).cursor()
    try:
        cursor.executemany(_dialect_sql(connection, sql), list(many))
    finally:
        cursor.close()


def placeholders(values: Sequence[object]) -> str:
    """`?, ?, ?` for an IN list; NULL matches nothing where there are no values."""
    return ", ".join("?" * len(values)) or "NULL"


def for_update(connection: Connection) -> str:
    """Holds the rows read until the transaction ends. SQLite has one writer, so there is nothing to hold."""
    return " FOR UPDATE" if is_postgres(connection) else ""


def for_share(connection: Connection) -> str:
    return " FOR SHARE" if is_postgres(connection) else ""


def is_postgres(connection: Connection) -> bool:
    return connection.dialect.name == "postgresql"


def now_ms(connection: Connection) -> int:
    """The database's own clock, which every process that shares it agrees on; a given one in simulations."""
    given = connection.info.get("now_ms")
    if given is not None:
        return int(given())
    sql = _PG_NOW if is_postgres(connection) else _SQLITE_NOW
    found = fetch_one(connection, sql)
    return int(found[0]) if found else 0


_PG_NOW = "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)"
_SQLITE_NOW = "SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"


def _driver(connection: Connection) -> Any:
    return connection.connection.driver_connection


def _dialect_sql(connection: Connection, sql: str) -> str:
    return _for_psycopg(sql) if is_postgres(connection) else sql


@cache
def _for_psycopg(sql: str) -> str:
    return sql.replace("%", "%%").replace("?", "%s")
