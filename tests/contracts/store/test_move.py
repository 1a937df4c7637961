"""Moving a database from SQLite to a real PostgreSQL: everything is copied, also after a crash at any point."""

import asyncio
import secrets
import sqlite3
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import Boolean, Column, Float, LargeBinary, String, Table

from anygpu.errors import AnygpuError, StorageFull
from anygpu.events.types import JobWaited
from anygpu.server.process.state import lock_state
from anygpu.settings import load
from anygpu.store.blobs.contract import BlobInfo
from anygpu.store.blobs.local import LocalBlobs
from anygpu.store.identity import StoreIdentity
from anygpu.store.move import markers
from anygpu.store.move.blobs import copy_blobs
from anygpu.store.move.markers import TargetState
from anygpu.store.move.rows import NOT_COPIED, MoveRefused, copied_tables
from anygpu.store.scope import Scope
from anygpu.store.sql.engine.database import Database, open_database
from anygpu.store.sql.engine.schema import DatabaseMoved
from anygpu.store.sql.engine.sqlite import SqliteDatabase
from anygpu.store.sql.engine.tables import METADATA
from anygpu.store.sql.journal import SqlJournal
from anygpu.store.sql.report_store.reports import SqlReports
from anygpu.testing.contracts.journal import append, submit
from anygpu.testing.contracts.reports import points, report
from anygpu.testing.samples.jobs import LAB, START_MS, interrupted_job, job_id, job_submitted
from anygpu.wiring.move import ServerMove

ROWS = 3


@pytest.fixture
def target(postgres_url: str) -> Iterator[str]:
    """An empty database on the PostgreSQL server."""
    name = f"move_{secrets.token_hex(6)}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
    yield postgres_url.replace("/postgres?", f"/{name}?")
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


class Source:
    """A state directory with an SQLite database."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.path = state / "anygpu.db"
        self.settings = load(environ={"HOME": str(state)}, overrides={"state": str(state)})
        state.mkdir(exist_ok=True)
        asyncio.run(self._create())

    async def _create(self) -> None:
        await (await SqliteDatabase.open(self.path)).close()

    def execute(self, sql: str, *values: Any) -> list[Any]:
        connection = sqlite3.connect(self.path)
        connection.execute("PRAGMA foreign_keys = ON")
        with connection:
            rows = connection.execute(sql, values).fetchall()
        connection.close()
        return rows

    def fill(self) -> None:
        """Add rows to every table, also to those that later versions add."""
        for table in METADATA.sorted_tables:
            for number in range(1, ROWS + 1):
                values = [sample(column, number) for column in table.columns]
                marks = ", ".join("?" * len(values))
                self.execute(f'INSERT INTO "{table.name}" VALUES ({marks})', *values)

    def move(self, target: str, **options: Any) -> ServerMove:
        return ServerMove(self.settings, target, **options)


def sample(column: Column[Any], number: int) -> Any:
    if column.foreign_keys or (column.name == "id" and not isinstance(column.type, String)):
        return number
    if isinstance(column.type, LargeBinary):
        return bytes([0, 255, number]) * 40
    if isinstance(column.type, String):
        return f"{column.table.name}-{column.name}-{number}-é\u2028😀"
    if isinstance(column.type, Boolean):
        return number % 2
    if isinstance(column.type, Float):
        return [0.1, float("inf"), 1e-300][number - 1]
    return 2**31 - number if str(column.type) == "INTEGER" else 2**53 - number


@pytest.fixture
def source(tmp_path: Path) -> Source:
    return Source(tmp_path / "state")


def rows_of(url: str, table: Table) -> list[Any]:
    columns = ", ".join(f'"{column.name}"' for column in table.columns)
    with psycopg.connect(url) as connection:
        return sorted(connection.execute(f'SELECT {columns} FROM "{table.name}"').fetchall(), key=repr)


def source_rows(source: Source, table: Table) -> list[Any]:
    booleans = [isinstance(column.type, Boolean) for column in table.columns]
    rows = source.execute(f'SELECT * FROM "{table.name}"')
    typed = [
        tuple(bool(value) if is_bool else value for value, is_bool in zip(row, booleans, strict=True))
        for row in rows
    ]
    return sorted(typed, key=repr)


def assert_equal(source: Source, target: str) -> None:
    for table in copied_tables():
        ours, theirs = source_rows(source, table), rows_of(target, table)
        if table.name == "properties":
            ours, theirs = ([row for row in rows if not row[0].startswith("move")] for rows in (ours, theirs))
        assert theirs == ours, table.name
        assert len(theirs) >= ROWS


def test_every_table_is_copied(source: Source, target: str) -> None:
    """Fails if a migration adds a table that a move would forget."""
    source.fill()
    names = {row[0] for row in source.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert names == {table.name for table in copied_tables()} | NOT_COPIED | {"alembic_version"}
    result = source.move(target).run()
    assert [each.table for each in result.tables] == [table.name for table in copied_tables()]
    assert all(each.rows >= ROWS and each.written >= ROWS for each in result.tables)
    source.execute("UPDATE leases SET expires_ms = 0")
    assert_equal(source, target)


async def fill_with_jobs(database: Database) -> None:
    journal, reports = SqlJournal(database), SqlReports(database)
    for number in range(1, 4):
        await submit(journal, number)
    await append(journal, job_id(1), *interrupted_job())
    for seq in range(1, 20):
        await report(reports, seq, logs=b"line\n" * 100, telemetry={"cpu": seq})
    await report(reports, 20, points=points(*map(float, range(300)), name="loss"))
    await database.close()


async def test_journal_and_reports_continue_where_they_were(tmp_path: Path, target: str) -> None:
    source = await asyncio.to_thread(Source, tmp_path / "state")
    await fill_with_jobs(await SqliteDatabase.open(source.path))
    old = await SqliteDatabase.open(source.path)
    views = [await SqlJournal(old).view(LAB, job_id(number)) for number in (1, 2, 3)]
    events = await SqlJournal(old).events(LAB, after=0, limit=1000)
    state = await SqlReports(old).state(job_id(1), 1)
    await old.close()
    await asyncio.to_thread(source.move(target).run)
    database = await open_database(target)
    journal, reports = SqlJournal(database), SqlReports(database)
    assert [await journal.view(LAB, job_id(number)) for number in (1, 2, 3)] == views
    assert await journal.events(LAB, after=0, limit=1000) == events
    assert await reports.state(job_id(1), 1) == state
    await append(journal, job_id(2), JobWaited(reason="after the move"))
    assert await journal.head(LAB) == events[-1].position + 1
    other = Scope(organisation="lab", project="a new project")
    await journal.submit(other, job_id(9), job_submitted(), at_ms=START_MS)
    await report(reports, 21, logs=b"more")
    await reports.record_heartbeat(job_id(2), 1, at_ms=START_MS)
    assert await journal.head(other) == 1
    await database.close()


class Crash(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("calls", [1, 2, 9, 20, 30, 43])
def test_a_move_that_was_interrupted_while_copying_continues(source: Source, target: str, calls: int) -> None:
    source.fill()
    left = calls

    def crash(what: str, done: int, total: int) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise Crash

    with pytest.raises(Crash):
        source.move(target, on_progress=crash).run()
    with pytest.raises(AnygpuError, match="has not finished"):
        asyncio.run(open_database(target))
    assert source.move(target).plan().state is TargetState.UNFINISHED
    source.move(target).run()
    assert_equal(source, target)
    asyncio.run(open_and_close(target))


async def open_and_close(url: str) -> None:
    await (await open_database(url)).close()


@pytest.mark.parametrize("step", ["start_target", "finish_source", "finish_target"])
@pytest.mark.parametrize("after", [False, True])
def test_a_move_that_was_interrupted_between_its_steps_continues(
    source: Source, target: str, step: str, after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.fill()
    act = getattr(markers, step)

    def crash(*arguments: Any) -> None:
        if after:
            act(*arguments)
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(markers, step, crash)
        with pytest.raises(Crash):
            source.move(target).run()
    result = source.move(target).run()
    assert result.already is (step == "finish_target" and after)
    assert_equal(source, target)
    asyncio.run(open_and_close(target))
    with pytest.raises(DatabaseMoved):
        asyncio.run(open_and_close(f"sqlite:///{source.path}"))


def test_a_database_that_was_moved_refuses_every_server(source: Source, target: str) -> None:
    source.move(target.replace("postgres@", "postgres:secret-word@")).run()
    with pytest.raises(DatabaseMoved, match="was moved to postgresql://") as refused:
        asyncio.run(open_and_close(f"sqlite:///{source.path}"))
    assert "secret-word" not in str(refused.value)
    # An older version looks for the migration with this name, and does not find it.
    assert source.execute("SELECT version_num FROM alembic_version") == [("moved",)]
    assert source.move(target).run().already


def test_a_moved_database_is_not_moved_to_a_second_target(
    source: Source, target: str, postgres_url: str
) -> None:
    source.move(target).run()
    name = f"move_{secrets.token_hex(6)}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
        with pytest.raises(MoveRefused, match="already moved"):
            source.move(postgres_url.replace("/postgres?", f"/{name}?")).run()
        connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def test_a_target_that_is_not_empty_is_refused(source: Source, target: str, tmp_path: Path) -> None:
    asyncio.run(open_and_close(target))
    with pytest.raises(MoveRefused, match="tables of another anygpu server"):
        source.move(target).run()


def test_tables_of_another_program_are_refused(source: Source, target: str) -> None:
    with psycopg.connect(target) as connection:
        connection.execute("CREATE TABLE jobs (a int)")
    with pytest.raises(MoveRefused, match=r"names that anygpu uses \(jobs\)"):
        source.move(target).run()


def test_the_unfinished_copy_of_another_server_is_refused(
    source: Source, target: str, tmp_path: Path
) -> None:
    source.move(target).prepare()
    other = Source(tmp_path / "other")
    with pytest.raises(MoveRefused, match="an unfinished copy of another database"):
        other.move(target).run()
    source.move(target).run()


def test_a_database_that_a_server_uses_is_refused(source: Source, target: str) -> None:
    with lock_state(source.state):
        with pytest.raises(MoveRefused, match="Stop it with `anygpu down`"):
            source.move(target).run()
        assert source.move(target).plan().server
    assert source.move(target).plan().server == ""


def test_a_prepared_move_writes_only_what_has_changed(source: Source, target: str) -> None:
    source.fill()
    with lock_state(source.state):
        assert sum(source.move(target).prepare().values()) > 0
    source.execute("UPDATE jobs SET status = 'changed' WHERE id = (SELECT min(id) FROM jobs)")
    source.execute("DELETE FROM attempts WHERE id = 2")
    source.execute("INSERT INTO projects VALUES (77, 'new', 'new', 0)")
    source.move(target).run()
    for table in copied_tables():
        if table.name != "properties":
            assert rows_of(target, table) == source_rows(source, table), table.name


def test_damaged_text_is_replaced_and_counted(source: Source, target: str) -> None:
    source.fill()
    source.execute("UPDATE events SET data = CAST(x'7b22ff00' AS TEXT) WHERE position = 9007199254740991")
    result = source.move(target).run()
    assert {each.table: each.replaced for each in result.tables if each.replaced} == {"events": 1}
    table = METADATA.tables["events"]
    assert '{"\ufffd\ufffd' in [row[-1] for row in rows_of(target, table)]


def test_a_row_that_cannot_be_stored_is_named(source: Source, target: str) -> None:
    source.fill()
    source.execute("UPDATE jobs SET position = 'no number' WHERE id = (SELECT min(id) FROM jobs)")
    with pytest.raises(MoveRefused, match=r"table jobs has a damaged row .*column position"):
        source.move(target).run()


@pytest.mark.parametrize("url", ["mysql://x/y", "nonsense", "sqlite:///x"])
def test_other_targets_are_refused(source: Source, url: str) -> None:
    with pytest.raises(AnygpuError, match="not the URL of a PostgreSQL database"):
        source.move(url)


def test_a_target_that_does_not_exist_is_refused(source: Source, postgres_url: str) -> None:
    with pytest.raises(MoveRefused, match="cannot be opened"):
        source.move(postgres_url.replace("/postgres?", "/missing?")).run()


def test_a_missing_source_is_refused(tmp_path: Path, target: str) -> None:
    settings = load(environ={"HOME": str(tmp_path)}, overrides={"state": str(tmp_path)})
    with pytest.raises(MoveRefused, match="nothing to move"):
        ServerMove(settings, target).run()
    assert not (tmp_path / "anygpu.db").exists()


async def test_files_are_copied_and_only_once(tmp_path: Path, target: str) -> None:
    source = await asyncio.to_thread(Source, tmp_path / "state")
    database = await SqliteDatabase.open(source.path)
    blobs = LocalBlobs(source.state / "blobs", secret=b"", base_url="")
    assert await StoreIdentity(database, blobs).check() == ""
    await database.close()
    for number in range(20):
        await blobs.put(f"org/lab/uploads/{number:064x}", b"x" * number)
    elsewhere = tmp_path / "elsewhere"
    move = source.move(target, blobs=elsewhere.as_uri())
    first = await asyncio.to_thread(move.run)
    assert first.blobs is not None
    assert (first.blobs.blobs, first.blobs.copied) == (20, 20)
    again = await asyncio.to_thread(move.run)
    assert again.blobs is not None
    assert (again.blobs.blobs, again.blobs.copied) == (20, 0)
    moved = LocalBlobs(elsewhere, secret=b"", base_url="")
    assert await moved.get(f"org/lab/uploads/{7:064x}") == b"x" * 7
    shared = await open_database(target)
    assert await StoreIdentity(shared, moved).check() == "", "the files belong to the moved database"
    await shared.close()


async def test_files_of_another_database_are_not_overwritten(tmp_path: Path, target: str) -> None:
    source = await asyncio.to_thread(Source, tmp_path / "state")
    database = await SqliteDatabase.open(source.path)
    blobs = LocalBlobs(source.state / "blobs", secret=b"", base_url="")
    await StoreIdentity(database, blobs).check()
    await database.close()
    other = LocalBlobs(tmp_path / "other", secret=b"", base_url="")
    await other.put("store-id", b"0" * 32)
    with pytest.raises(MoveRefused, match="belongs to another database"):
        await asyncio.to_thread(source.move(target, blobs=(tmp_path / "other").as_uri()).run)


class FullBlobs(LocalBlobs):
    """A blob store whose disk is full after some files."""

    room = 10

    async def put(self, key: str, data: bytes | AsyncIterator[bytes]) -> BlobInfo:
        self.room -= 1
        if self.room < 0:
            raise StorageFull()
        return await super().put(key, data)


async def test_a_copy_of_files_that_fails_says_why_and_continues(tmp_path: Path) -> None:
    source = LocalBlobs(tmp_path / "source", secret=b"", base_url="")
    await source.put("store-id", b"0" * 32)
    for number in range(30):
        await source.put(f"org/lab/uploads/{number:064x}", b"x" * number)
    with pytest.raises(StorageFull):
        await copy_blobs(source, FullBlobs(tmp_path / "target", secret=b"", base_url=""), lambda *_: None)
    shown: list[tuple[int, int]] = []
    target = LocalBlobs(tmp_path / "target", secret=b"", base_url="")
    summary = await copy_blobs(source, target, lambda *each: shown.append(each))
    assert summary.blobs == 30
    assert 21 <= summary.copied < 30, "the files that were copied before are not copied again"
    assert shown[-1] == (30, 30)
