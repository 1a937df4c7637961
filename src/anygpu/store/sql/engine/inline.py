"""SQLite in memory without threads, so that simulations always give the same result."""

import sqlite3
from collections.abc import Callable
from functools import cache
from typing import Any

from sqlalchemy import create_engine
from sqlalchemy.pool import StaticPool

from anygpu.store.sql.engine.database import T, Work, translate_error
from anygpu.store.sql.engine.schema import ensure_schema


class InlineDatabase:
    """A `Database` in memory. `now_ms` is its clock; by default SQLite's own clock is used."""

    def __init__(self, *, now_ms: Callable[[], int] | None = None) -> None:
        self._driver = _new_database()
        self._engine = _engine(self._driver)
        self._connection = self._engine.connect()
        self._connection.info["now_ms"] = now_ms

    async def read(self, work: Work[T]) -> T:
        return self._run("BEGIN", work)

    async def write(self, work: Work[T], *, then: Callable[[T], None] | None = None) -> T:
        result = self._run("BEGIN IMMEDIATE", work)
        if then is not None:
            then(result)
        return result

    async def close(self) -> None:
        self._connection.close()
        self._engine.dispose()

    def _run(self, begin: str, work: Work[T]) -> T:
        self._driver.execute(begin)
        try:
            result = work(self._connection)
            self._driver.execute("COMMIT")
        except Exception as error:
            raise translate_error(error) from error
        finally:
            if self._driver.in_transaction:
                self._driver.execute("ROLLBACK")
        return result


def _new_database() -> sqlite3.Connection:
    """Return a new database with all tables, copied from a template.

    Copying is faster than creating the tables, and simulations need thousands of databases.
    """
    driver = _connect()
    _template().backup(driver)
    driver.execute("PRAGMA foreign_keys = ON")
    return driver


@cache
def _template() -> sqlite3.Connection:
    driver = _connect()
    ensure_schema(_engine(driver))
    return driver


def _connect() -> sqlite3.Connection:
    return sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False, cached_statements=512)


def _engine(driver: sqlite3.Connection) -> Any:
    return create_engine(
        "sqlite+pysqlite://", creator=lambda: driver, poolclass=StaticPool, isolation_level="AUTOCOMMIT"
    )
