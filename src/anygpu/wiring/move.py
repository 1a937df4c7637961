"""Move the database of an embedded server from SQLite to PostgreSQL, and optionally its files to object storage."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, Engine, inspect
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError

from anygpu.errors import AnygpuError
from anygpu.server.process import state
from anygpu.settings import Settings
from anygpu.store.blobs.factory import open_blobs
from anygpu.store.move import markers
from anygpu.store.move.blobs import BlobSummary, copy_blobs
from anygpu.store.move.markers import TargetState
from anygpu.store.move.rows import MoveRefused, copied_tables
from anygpu.store.move.tables import (
    TableSummary,
    continue_sequences,
    copy_tables,
    count_rows,
    verify_tables,
)
from anygpu.store.sql.engine.postgres import postgres_engine
from anygpu.store.sql.engine.schema import SCHEMA_VERSION, current_version, ensure_schema
from anygpu.store.sql.engine.sqlite import file_engine
from anygpu.store.sql.engine.statements import fetch_one
from anygpu.wiring.stores import parse_blob_options

CONNECTIONS = 4
BUSY_TIMEOUT_S = 30.0
OnProgress = Callable[[str, int, int], None]  # what is copied, how much so far, how much in all


@dataclass(frozen=True, slots=True, kw_only=True)
class MovePlan:
    """What a move would copy, and whether it can start."""

    source: str
    target: str
    state: TargetState
    rows: dict[str, int]  # by table
    live_jobs: int
    server: str  # the address of the running server; "" if none runs


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveResult:
    """What a move has copied. `already`: an earlier run had completed the same move."""

    target: str
    tables: list[TableSummary]
    blobs: BlobSummary | None
    already: bool = False


class ServerMove:
    """The move of one embedded server. `target` is a PostgreSQL URL, `blobs` the URL of a blob store or "".

    Every step can be repeated: if the process ends at any point, the same move continues.
    """

    def __init__(
        self,
        settings: Settings,
        target: str,
        *,
        blobs: str = "",
        blob_options: tuple[str, ...] = (),
        on_progress: OnProgress = lambda what, done, total: None,
    ) -> None:
        if not settings.embedded:
            raise MoveRefused(
                "The setting store.database already names a PostgreSQL database, so there is no SQLite file to move.",
                hint="Remove the setting to move the file in the state directory.",
            )
        self._settings = settings
        self._path = Path(settings.database_url.removeprefix("sqlite:///"))
        self._target_url = _require_postgres(target)
        self.target_name = hide_password(target)
        self._blobs_url = blobs
        self._blob_options = blob_options
        self._on_progress = on_progress

    def plan(self) -> MovePlan:
        """Return what a move would do. Changes nothing."""
        with (
            self._open_source(migrate=False) as source,
            self._open_target() as target,
            target.connect() as connection,
        ):
            source_id = markers.move_id(source)
            existing = set(inspect(source).get_table_names())
            live = fetch_one(source, "SELECT count(*) FROM jobs WHERE live")
            return MovePlan(
                source=str(self._path),
                target=self.target_name,
                state=self._target_state(source, connection, source_id),
                rows={
                    table.name: count_rows(source, table)
                    for table in copied_tables()
                    if table.name in existing
                },
                live_jobs=int(live[0]) if live else 0,
                server=self._running_server(),
            )

    def prepare(self) -> dict[str, int]:
        """Copy what there is now, while the server may run. `run` then has to copy only what has changed.

        Return how many rows of each table were written.
        """
        with self._open_source(migrate=False) as source, self._open_target() as target:
            if current_version(source) != SCHEMA_VERSION:
                raise MoveRefused(
                    f"The database {self._path} has the tables of another version of anygpu.",
                    hint="Start the server once with this version, so that it migrates them.",
                )
            with _writing(source):
                source_id = markers.set_move_id(source)
            if self._start(source, target, source_id) is TargetState.FINISHED:
                return {}
            with _reading(source):
                return copy_tables(source, target, self._labelled("Copied"))

    def run(self) -> MoveResult:
        """Copy and verify everything, and mark the SQLite file as moved. No server may use it meanwhile."""
        with (
            self._locked_state(),
            self._open_source() as source,
            self._open_target() as target,
        ):
            return self._move(source, target)

    def _move(self, source: Connection, target: Engine) -> MoveResult:
        with _writing(source):
            source_id = markers.start_source(source)
        if self._start(source, target, source_id) is TargetState.FINISHED:
            return MoveResult(target=self.target_name, tables=[], blobs=self._copy_blobs(), already=True)
        with _reading(source):
            written = copy_tables(source, target, self._labelled("Copied"))
            tables = verify_tables(source, target, written, self._labelled("Verified"))
        continue_sequences(target)
        blobs = self._copy_blobs()
        with _writing(source):
            markers.finish_source(source, self.target_name)
        markers.finish_target(target, source_id)
        return MoveResult(target=self.target_name, tables=tables, blobs=blobs)

    def _start(self, source: Connection, target: Engine, source_id: str) -> TargetState:
        with target.connect() as connection:
            found = self._target_state(source, connection, source_id)
        if found is TargetState.EMPTY:
            markers.start_target(target, source_id)
        return found

    def _target_state(self, source: Connection, target: Connection, source_id: str | None) -> TargetState:
        """Return what the target is. Raise MoveRefused if the source was moved to another target."""
        found = markers.target_state(target, source_id)
        if markers.is_moved(source) and found is TargetState.EMPTY:
            raise MoveRefused(
                f"The database {self._path} was already moved to another database.",
                hint="Use that database (setting store.database). This file is only a backup.",
            )
        return found

    def _copy_blobs(self) -> BlobSummary | None:
        if not self._blobs_url:
            return None
        source = open_blobs(
            self._settings.blobs_url, options=parse_blob_options(self._settings.store.blob_options)
        )
        target = open_blobs(self._blobs_url, options=parse_blob_options(self._blob_options))
        report = self._labelled("Copied")
        return asyncio.run(copy_blobs(source, target, lambda done, total: report("files", done, total)))

    def _labelled(self, step: str) -> OnProgress:
        return lambda what, done, total: self._on_progress(f"{step} {what}", done, total)

    @contextlib.contextmanager
    def _locked_state(self) -> Iterator[None]:
        """Keep servers from starting on the database. Raise MoveRefused if one runs."""
        server = self._running_server()
        if server:
            raise MoveRefused(
                f"A server ({server}) uses the database {self._path}.",
                hint="Stop it with `anygpu down`, then run the same command again; jobs keep running. To copy most "
                "rows while the server runs, use --prepare first.",
            )
        with state.lock_state(self._settings.state):
            yield

    def _running_server(self) -> str:
        try:
            with state.lock_state(self._settings.state):
                return ""
        except state.StateInUse as error:
            return str(error.details.get("url") or self._settings.state)

    @contextlib.contextmanager
    def _open_source(self, *, migrate: bool = True) -> Iterator[Connection]:
        if not self._path.exists():
            raise MoveRefused(
                f"There is no database {self._path}, so there is nothing to move.",
                hint="Check the setting `state` (ANYGPU_STATE). A new server can use PostgreSQL from its first start.",
            )
        engine = file_engine(self._path, BUSY_TIMEOUT_S)
        try:
            with engine.connect() as connection:
                if migrate and not markers.is_moved(connection):
                    ensure_schema(engine)
                yield connection
        finally:
            engine.dispose()

    @contextlib.contextmanager
    def _open_target(self) -> Iterator[Engine]:
        engine = postgres_engine(self._target_url, CONNECTIONS)
        import psycopg

        try:
            _require_connection(engine, self.target_name)
            yield engine
        except (DBAPIError, psycopg.Error) as error:
            raise MoveRefused(
                f"The target database {self.target_name} failed: {error}.",
                hint="Repair the cause, then run the same command again; it continues the copy.",
            ) from error
        finally:
            engine.dispose()


def _require_connection(engine: Engine, name: str) -> None:
    try:
        with engine.connect():
            return
    except DBAPIError as error:
        raise MoveRefused(
            f"The target database {name} cannot be opened: {error.orig}",
            hint="Check the URL. The database must exist; create it with `createdb` or CREATE DATABASE.",
        ) from error


@contextlib.contextmanager
def _writing(source: Connection) -> Iterator[None]:
    with _transaction(source, "BEGIN IMMEDIATE"):
        yield


@contextlib.contextmanager
def _reading(source: Connection) -> Iterator[None]:
    """Read one snapshot, also if a server writes to the database meanwhile."""
    with _transaction(source, "BEGIN"):
        yield


@contextlib.contextmanager
def _transaction(source: Connection, begin: str) -> Iterator[None]:
    source.exec_driver_sql(begin)
    try:
        yield
    except BaseException:
        source.exec_driver_sql("ROLLBACK")
        raise
    source.exec_driver_sql("COMMIT")


def _require_postgres(url: str) -> str:
    try:
        is_postgres = make_url(url).get_backend_name() in ("postgresql", "postgres")
    except (ArgumentError, ValueError):
        is_postgres = False
    if not is_postgres:
        raise AnygpuError(
            f"{hide_password(url)!r} is not the URL of a PostgreSQL database.",
            hint="Write it as postgresql://user@host/database.",
        )
    return url


def hide_password(url: str) -> str:
    """Return a database URL without its password, to print it."""
    try:
        return make_url(url).render_as_string(hide_password=True)
    except (ArgumentError, ValueError):
        return url.split("://", maxsplit=1)[0]
