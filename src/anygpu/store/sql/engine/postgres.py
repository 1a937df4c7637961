"""PostgreSQL with psycopg 3: a pool of connections in threads, one transaction per write."""

import asyncio
import contextlib
import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, make_url
from sqlalchemy.exc import DBAPIError

from anygpu.errors import AnygpuError, Internal
from anygpu.installation import install_hint
from anygpu.store.sql.engine.database import T, Work, translate_error
from anygpu.store.sql.engine.schema import ensure_schema

CONNECTIONS = 8
MAX_TRIES = 8
# Without limits, calls wait for ever if the machine of the database disappears without closing its connections. The
# parameters are those of libpq; the URL may have others. Connections through a Unix socket ignore all but the first.
CONNECTION_LIMITS = {
    "connect_timeout": 10,  # seconds
    "keepalives_idle": 10,  # seconds without data until the first probe; two without an answer end the connection
    "keepalives_interval": 5,
    "keepalives_count": 2,
    "tcp_user_timeout": 20_000,  # milliseconds until data that was sent must be acknowledged
}
_RETRYABLE_STATES = ("40001", "40P01")  # serialization failure, deadlock


class PostgresDatabase:
    """A `Database` that several processes can share."""

    def __init__(self, url: str, *, connections: int = CONNECTIONS) -> None:
        self._engine = postgres_engine(url, connections)
        try:
            ensure_schema(self._engine)
        except BaseException:
            self._engine.dispose()
            raise
        # All statements of one read must see the same snapshot, as on SQLite.
        self._snapshots = self._engine.execution_options(
            isolation_level="REPEATABLE READ", postgresql_readonly=True
        )
        self._threads = ThreadPoolExecutor(connections, thread_name_prefix="anygpu-postgres")
        self._closed = False

    @classmethod
    async def open(cls, url: str, *, connections: int = CONNECTIONS) -> "PostgresDatabase":
        def make() -> PostgresDatabase:
            try:
                return cls(url, connections=connections)
            except DBAPIError as error:
                raise translate_error(error) from error

        return await asyncio.to_thread(make)

    async def read(self, work: Work[T]) -> T:
        return await self._in_thread(partial(_run_with_retries, self._snapshots, work))

    async def write(self, work: Work[T], *, then: Callable[[T], None] | None = None) -> T:
        return await self._in_thread(partial(self._write, work, then, asyncio.get_running_loop()))

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        await asyncio.to_thread(self._threads.shutdown)
        self._engine.dispose()

    async def _in_thread(self, call: Callable[[], T]) -> T:
        if self._closed:
            raise Internal(
                "The server is stopping, so it no longer uses its database. Repeat the request when the server "
                "runs again."
            )
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    def _write(self, work: Work[T], then: Callable[[T], None] | None, loop: asyncio.AbstractEventLoop) -> T:
        result = _run_with_retries(self._engine, work)
        if then is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(then, result)
        return result


def postgres_engine(url: str, connections: int) -> Engine:
    """Return a pool of connections. Raise an error if the driver is not installed."""
    try:
        import psycopg  # noqa: F401 - to report that it is missing
    except ImportError as error:
        raise AnygpuError(
            "A PostgreSQL database needs the Python package psycopg, which is not installed.",
            hint=install_hint("postgres"),
        ) from error
    address = make_url("postgresql+psycopg://" + url.partition("://")[2])
    # pool_pre_ping: after a restart of the PostgreSQL server all pooled connections are dead.
    return create_engine(
        address,
        connect_args={name: limit for name, limit in CONNECTION_LIMITS.items() if name not in address.query},
        pool_pre_ping=True,
        pool_size=connections,
        max_overflow=2,
        pool_timeout=30,
        pool_recycle=1800,
    )


def _run_with_retries(engine: Engine, work: Work[T]) -> T:
    """Run `work` in a transaction and return its result.

    If the transaction conflicts with another transaction, try again after a random delay.
    """
    for tries_left in reversed(range(MAX_TRIES)):
        try:
            return _run_once(engine, work)
        except Exception as error:
            if tries_left and _sqlstate(error) in _RETRYABLE_STATES:
                time.sleep(random.uniform(0, 0.01 * (MAX_TRIES - tries_left)))  # noqa: S311 - no cryptography
                continue
            raise translate_error(error) from error
    raise Internal(
        "The retries of a database transaction ended without a result. This is a bug in anygpu; report it."
    )


def _run_once(engine: Engine, work: Work[T]) -> T:
    with engine.connect() as connection:
        try:
            with connection.begin():
                return work(connection)
        finally:
            _invalidate_if_broken(connection)


def _invalidate_if_broken(connection: Connection) -> None:
    """Remove a dead connection from the pool.

    Statements run on the driver directly, so SQLAlchemy's pool does not notice the dead connection by itself.
    """
    if connection.closed or connection.invalidated:
        return
    driver: Any = connection.connection.driver_connection
    if driver.closed or driver.broken:
        connection.invalidate()


def _sqlstate(error: Exception) -> str:
    cause = error.orig if isinstance(error, DBAPIError) else error
    return str(getattr(cause, "sqlstate", ""))
