"""SQLite in a file: one writer thread with group commit, and a few reader threads."""

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from sqlalchemy import Connection, Engine, create_engine
from sqlalchemy.pool import NullPool

from anygpu.errors import Internal, StoreBusy
from anygpu.store.sql.engine.database import T, Work, translate_error
from anygpu.store.sql.engine.schema import ensure_schema

READERS = 4
MAX_WRITES_PER_COMMIT = 512  # limits how long the first of them waits
MAX_READS_PER_TRANSACTION = 16  # waking a thread costs more than a small read


@dataclass(slots=True)
class _Task:
    """A function to run in a database thread, and its result, for which the caller waits."""

    work: Work[Any]
    future: asyncio.Future[Any]
    then: Callable[[Any], None] | None = None
    result: Any = None
    error: Exception | None = None

    def finish(self) -> None:
        """Set the result of the caller's future. Must be called in the caller's event loop.

        `then` is called with the result first, even if the caller was cancelled.
        """
        if self.error is None and self.then is not None:
            self._notify(self.then)
        if self.future.done():
            return
        if self.error is None:
            self.future.set_result(self.result)
        else:
            self.future.set_exception(self.error)

    def _notify(self, then: Callable[[Any], None]) -> None:
        """Call `then` with the result.

        An error that `then` raises goes to the event loop's exception handler, so that other tasks of the
        same commit are not affected.
        """
        try:
            then(self.result)
        except Exception as error:  # noqa: BLE001
            context = {"message": "a commit listener failed", "exception": error, "future": self.future}
            self.future.get_loop().call_exception_handler(context)


class SqliteDatabase:
    """A `Database` in one file. A write returns only after it is durable."""

    def __init__(self, path: Path, *, busy_timeout_s: float = 5.0) -> None:
        self._engine = file_engine(path, busy_timeout_s)
        ensure_schema(self._engine)
        self._writes: SimpleQueue[_Task | None] = SimpleQueue()
        self._reads: SimpleQueue[_Task | None] = SimpleQueue()
        self._threads = [_start_thread(self._write_loop, "anygpu-writer")]
        self._threads += [
            _start_thread(self._read_loop, f"anygpu-reader-{number}") for number in range(READERS)
        ]
        self._closed = False

    @classmethod
    async def open(cls, path: Path, *, busy_timeout_s: float = 5.0) -> "SqliteDatabase":
        def make() -> SqliteDatabase:
            try:
                return cls(path, busy_timeout_s=busy_timeout_s)
            except (sqlite3.Error, OSError) as error:
                raise translate_error(error) from error

        return await asyncio.to_thread(make)

    async def read(self, work: Work[T]) -> T:
        return await self._submit(self._reads, work)

    async def write(self, work: Work[T], *, then: Callable[[T], None] | None = None) -> T:
        return await self._submit(self._writes, work, then)

    async def _submit(
        self, queue: "SimpleQueue[_Task | None]", work: Work[T], then: Callable[[T], None] | None = None
    ) -> T:
        if self._closed:
            raise Internal(
                "The server is stopping, so it no longer uses its database. Repeat the request when the server "
                "runs again."
            )
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        queue.put(_Task(work, future, then))
        return await future

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._writes.put(None)
        self._reads.put(None)
        await asyncio.to_thread(self._shut_down)

    def _shut_down(self) -> None:
        for thread in self._threads:
            thread.join()
        self._engine.dispose()

    def _write_loop(self) -> None:
        with self._engine.connect() as connection:
            while tasks := _take_tasks(self._writes, MAX_WRITES_PER_COMMIT):
                commit_group(connection, tasks)
                _deliver(tasks)

    def _read_loop(self) -> None:
        """Run the queued reads in batches until the database is closed.

        All reader threads share one queue.
        """
        with contextlib.ExitStack() as stack:
            connection: Connection | None = None
            while tasks := _take_tasks(self._reads, MAX_READS_PER_TRANSACTION, among=READERS):
                try:
                    connection = connection or stack.enter_context(self._reader())
                except Exception as error:  # noqa: BLE001 - the next read tries again
                    _fail_all(tasks, translate_error(error))
                else:
                    _run_reads(connection, tasks)
                _deliver(tasks)

    @contextlib.contextmanager
    def _reader(self) -> Iterator[Connection]:
        with self._engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA query_only = ON")
            yield connection


def _start_thread(work: Callable[[], None], name: str) -> threading.Thread:
    thread = threading.Thread(target=work, name=name, daemon=True)
    thread.start()
    return thread


def _take_tasks(queue: "SimpleQueue[_Task | None]", max_count: int, *, among: int = 1) -> list[_Task]:
    """Wait for a task, then return it and more tasks that are already queued, at most `max_count`.

    If several threads (`among`) read the queue, each takes only an equal part of the queued tasks. The list
    is empty if the database is being closed.
    """
    first = queue.get()
    if first is None:
        queue.put(None)  # for the other threads
        return []
    taken, share = [first], min(max_count, 1 + queue.qsize() // among)
    while len(taken) < share:
        try:
            task = queue.get_nowait()
        except Empty:
            break
        if task is None:
            queue.put(None)
            break
        taken.append(task)
    return taken


def file_engine(path: Path, busy_timeout_s: float) -> Engine:
    def connect() -> sqlite3.Connection:
        raw = sqlite3.connect(
            path, timeout=busy_timeout_s, isolation_level=None, check_same_thread=False, cached_statements=512
        )
        for pragma in (
            "journal_mode = WAL",
            "synchronous = FULL",
            "foreign_keys = ON",
            "temp_store = MEMORY",
            "cache_size = -16384",
            "journal_size_limit = 67108864",
        ):
            raw.execute(f"PRAGMA {pragma}")
        return raw

    return create_engine(
        "sqlite+pysqlite://", creator=connect, poolclass=NullPool, isolation_level="AUTOCOMMIT"
    )


def commit_group(connection: Connection, tasks: Sequence[_Task]) -> None:
    """Commit the writes of several callers in one transaction. A write that fails does not affect the others.

    If the common transaction fails, each write is committed alone: on a full disk some may still succeed.
    """
    if len(tasks) > 1 and any(
        _commit_together(connection, tasks, savepoints=savepoints) for savepoints in (False, True)
    ):
        return
    for task in tasks:
        _commit_alone(connection, task)


def _commit_together(connection: Connection, tasks: Sequence[_Task], *, savepoints: bool) -> bool:
    """Commit all tasks in one transaction. Return False if nothing was committed and the tasks must run again.

    With `savepoints`, only the writes of a failed task are rolled back. The first try is without savepoints,
    because a task that fails has usually written nothing.
    """
    driver: Any = connection.connection.driver_connection
    try:
        driver.execute("BEGIN IMMEDIATE")
        for task in tasks:
            before = driver.total_changes
            if savepoints:
                driver.execute("SAVEPOINT task")
            _run_task(connection, task)
            undo = task.error is not None and driver.total_changes != before
            if not driver.in_transaction:  # SQLite rolled back everything, for example on a full disk
                return False
            if undo and not savepoints:
                _roll_back(driver)
                return False
            if undo:
                driver.execute("ROLLBACK TO task")
            if savepoints:
                driver.execute("RELEASE task")
        driver.execute("COMMIT")
    except sqlite3.Error as error:
        _roll_back(driver)
        return _fail_all_if_busy(tasks, error)
    return True


def _fail_all_if_busy(tasks: Sequence[_Task], error: sqlite3.Error) -> bool:
    """If another process has locked the database, set the error of all tasks and return True.

    Running the tasks one by one would only wait for the same lock again.
    """
    translated = translate_error(error)
    if not isinstance(translated, StoreBusy):
        return False
    _fail_all(tasks, translated)
    return True


def _fail_all(tasks: Sequence[_Task], error: Exception) -> None:
    for task in tasks:
        task.error = error


def _commit_alone(connection: Connection, task: _Task) -> None:
    driver: Any = connection.connection.driver_connection
    try:
        driver.execute("BEGIN IMMEDIATE")
        _run_task(connection, task)
        if task.error is None:
            driver.execute("COMMIT")
    except sqlite3.Error as error:
        task.error = translate_error(error)
    _roll_back(driver)


def _run_task(connection: Connection, task: _Task) -> None:
    task.error = None  # from an earlier try
    try:
        task.result = task.work(connection)
    except Exception as error:  # noqa: BLE001 - the caller gets whatever the work raised
        task.error = translate_error(error)


def _roll_back(driver: sqlite3.Connection) -> None:
    if driver.in_transaction:
        driver.execute("ROLLBACK")


def _deliver(tasks: Sequence[_Task]) -> None:
    """Send the results to the callers. Each event loop is woken only once for all its tasks."""
    by_loop: dict[asyncio.AbstractEventLoop, list[_Task]] = {}
    for task in tasks:
        by_loop.setdefault(task.future.get_loop(), []).append(task)
    for loop, finished in by_loop.items():
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(_finish_all, finished)


def _finish_all(tasks: Sequence[_Task]) -> None:
    for task in tasks:
        task.finish()


def _run_reads(connection: Connection, tasks: Sequence[_Task]) -> None:
    """Run reads in one transaction, which starts after all reads were requested, so all see current data."""
    driver: Any = connection.connection.driver_connection
    try:
        driver.execute("BEGIN")
        for task in tasks:
            _run_task(connection, task)
    except sqlite3.Error as error:
        _fail_all(tasks, translate_error(error))
    finally:
        _roll_back(driver)
