"""A database runs functions of a connection, and speaks our errors instead of its driver's."""

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
# By class (two letters) or state: disk and memory full, lock not available, shutting down, connection lost,
# and transactions that lost against another.
_POSTGRES = {"53": StorageFull, "55P03": StoreBusy, "57P": StoreBusy, "08": StoreBusy, "40": StoreBusy}


class Database(Protocol):
    """Runs work. It may run in another thread, and again when its transaction has to be repeated."""

    async def read(self, work: Work[T]) -> T:
        """Run it on a snapshot of what is committed."""
        ...

    async def write(self, work: Work[T], *, then: Callable[[T], None] | None = None) -> T:
        """Run it in a transaction of its own; it is durable when this returns.

        `then` gets the result in this event loop once it is committed, even when the caller was cancelled.
        """
        ...

    async def close(self) -> None:
        """Finish what was accepted, then let go."""
        ...


async def open_database(url: str, *, busy_timeout_s: float = 5.0) -> Database:
    """`sqlite:///<path>` or `postgresql://…`, its schema brought up to date."""
    if url.startswith("sqlite:///"):
        from anygpu.store.sql.sqlite import SqliteDatabase

        path = Path(url.removeprefix("sqlite:///"))
        return await SqliteDatabase.open(path, busy_timeout_s=busy_timeout_s)
    if url.startswith(("postgresql://", "postgres://")):
        from anygpu.store.sql.postgres import PostgresDatabase

        return await PostgresDatabase.open(url)
    scheme = url.partition(":")[0]
    raise AnygpuError(
        f"database address begins with {scheme!r}",
        hint="use sqlite:///<path> or postgresql://<host>/<database>.",
    )


def translate_error(error: Exception) -> Exception:
    """The driver's error as ours where we have a word for it, else as it is."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    kind = _error_class(cause)
    if kind is None:
        return error
    ours = kind(f"{kind().message} ({cause})".strip(), hint=kind().hint)
    ours.__cause__ = error
    return ours


def _error_class(cause: BaseException | None) -> type[AnygpuError] | None:
    if isinstance(cause, sqlite3.Error):
        return _SQLITE.get(getattr(cause, "sqlite_errorcode", 0) & 0xFF)
    if isinstance(cause, PoolTimeout):
        return StoreBusy
    state = str(getattr(cause, "sqlstate", None) or "")
    if not state:  # psycopg says nothing more than that the connection is gone
        return (
            StoreBusy
            if type(cause).__module__.startswith("psycopg") and _is_connection_error(cause)
            else None
        )
    return next((kind for prefix, kind in _POSTGRES.items() if state.startswith(prefix)), None)


def _is_connection_error(cause: BaseException | None) -> bool:
    return type(cause).__name__ in ("OperationalError", "ConnectionTimeout", "AdminShutdown")
