"""The database interface: run functions in transactions, and translate driver errors into anygpu's errors."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from anygpu.errors import AnygpuError, StorageFull, StoreBusy

T = TypeVar("T")
Work = Callable[[Connection], T]

_SQLITE = {
    sqlite3.SQLITE_BUSY: StoreBusy,
    sqlite3.SQLITE_LOCKED: StoreBusy,
    sqlite3.SQLITE_FULL: StorageFull,
}
# By SQLSTATE or its class (first two characters): disk or memory full, lock not available, shutting down,
# connection lost, and transactions that conflict with another.
_POSTGRES = {"53": StorageFull, "55P03": StoreBusy, "57P": StoreBusy, "08": StoreBusy, "40": StoreBusy}


class Database(Protocol):
    """Runs functions (`work`) in transactions.

    `work` may be called in another thread, and is called again if its transaction has to be retried.
    """

    async def read(self, work: Work[T]) -> T:
        """Run `work` on a snapshot of the committed data and return its result."""
        ...

    async def write(self, work: Work[T], *, then: Callable[[T], None] | None = None) -> T:
        """Run `work` in its own transaction and return its result once the transaction is durable.

        `then` is called with the result in this event loop after the commit, even if the caller was
        cancelled.
        """
        ...

    async def close(self) -> None:
        """Finish all accepted work, then close the connections."""
        ...


async def open_database(url: str, *, busy_timeout_s: float = 5.0) -> Database:
    """Open `sqlite:///<path>` or `postgresql://…`, and migrate the schema if necessary."""
    if url.startswith("sqlite:///"):
        from anygpu.store.sql.engine.sqlite import SqliteDatabase

        path = Path(url.removeprefix("sqlite:///"))
        return await SqliteDatabase.open(path, busy_timeout_s=busy_timeout_s)
    if url.startswith(("postgresql://", "postgres://")):
        from anygpu.store.sql.engine.postgres import PostgresDatabase

        return await PostgresDatabase.open(url)
    scheme = url.partition(":")[0]
    raise AnygpuError(
        f"The database URL in the setting store.database begins with {scheme!r}, which is not supported.",
        hint="Use sqlite:///<path> or postgresql://<host>/<database>.",
    )


def translate_error(error: Exception) -> Exception:
    """Return the anygpu error that corresponds to a driver error. Other errors are returned unchanged."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    kind = _error_class(cause)
    if kind is None:
        return error
    translated = kind(f"{kind().message} ({cause})".strip(), hint=kind().hint)
    translated.__cause__ = error
    return translated


def _error_class(cause: BaseException | None) -> type[AnygpuError] | None:
    if isinstance(cause, sqlite3.Error):
        return _SQLITE.get(getattr(cause, "sqlite_errorcode", 0) & 0xFF)
    if isinstance(cause, PoolTimeout):
        return StoreBusy
    state = str(getattr(cause, "sqlstate", None) or "")
    if not state:  # psycopg has no SQLSTATE for a lost connection
        return (
            StoreBusy
            if type(cause).__module__.startswith("psycopg") and _is_connection_error(cause)
            else None
        )
    return next((kind for prefix, kind in _POSTGRES.items() if state.startswith(prefix)), None)


def _is_connection_error(cause: BaseException | None) -> bool:
    return type(cause).__name__ in ("OperationalError", "ConnectionTimeout", "AdminShutdown")
