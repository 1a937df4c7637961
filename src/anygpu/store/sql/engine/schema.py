"""Create or migrate the tables. Alembic takes half a second to import, so it is imported only when needed."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import Connection, Engine

from anygpu.errors import AnygpuError
from anygpu.store.sql.engine.properties import get_property, set_property
from anygpu.store.sql.engine.statements import execute, fetch_all, now_ms

SCHEMA_VERSION = "0010"  # version of `tables.py` and of the newest migration
# Servers of this schema version or a newer one can use the tables of SCHEMA_VERSION. So servers can be upgraded one
# after the other: a migration adds what the new version needs, and a later version removes what is no longer needed.
# Each migration states it as `oldest_server`.
OLDEST_SERVER = "0009"
# Versions in place of a number: no server, also no older one, starts on such a database.
COPYING = "copying"  # `anygpu server move` has not finished the copy
MOVED = "moved"  # `anygpu server move` copied the database to another
MIGRATIONS = Path(__file__).parents[1] / "migrations"
# An arbitrary number, the same in every process, so that only one migrates at a time.
_LOCK = 5_147_280_001
_OLDEST_PROPERTY = "schema_oldest_server"
MOVED_TO_PROPERTY = "moved_to"


class SchemaTooNew(AnygpuError):
    """A newer version of anygpu has changed the tables of this database. Install that version on this server too."""

    code = "schema_too_new"


class DatabaseMoved(AnygpuError):
    """This database was moved to another one. Use the other one (setting store.database)."""

    code = "database_moved"


class OldServersRun(AnygpuError):
    """Servers of an older version still use this database. Stop them, then start this server again."""

    code = "old_servers_run"


def ensure_schema(engine: Engine) -> None:
    """Create the tables, or migrate them to the current version. Newer tables are used if they allow it.

    Raise an error if this process must not use the database.
    """
    with engine.connect() as connection:
        if _is_usable(connection):
            return
    with engine.connect() as connection, migration_lock(connection):
        if current_version(connection) is None:
            create_tables(connection)
        elif not _is_usable(connection):
            _require_no_old_servers(connection)
            upgrade(connection)
            set_property(connection, _OLDEST_PROPERTY, OLDEST_SERVER)


def _is_usable(connection: Connection) -> bool:
    """Return whether this process can use the tables as they are. False if they have to be created or migrated."""
    version = current_version(connection)
    if version in (COPYING, MOVED):
        raise _moved_error(connection, version)
    require_compatible(connection)
    return version is not None and version >= SCHEMA_VERSION


def require_compatible(connection: Connection) -> None:
    """Raise SchemaTooNew if a newer server has changed the tables so that this process must not use them."""
    version = current_version(connection) or ""
    if version <= SCHEMA_VERSION:
        return
    oldest = get_property(connection, _OLDEST_PROPERTY) or version
    if oldest > SCHEMA_VERSION:
        raise SchemaTooNew(
            f"The database has tables of a newer version of anygpu (schema {version}). Servers from schema {oldest} "
            f"on can use them; this server has schema {SCHEMA_VERSION}.",
            hint="Install the newer version on this server, or use another database (setting store.database).",
        )


def _moved_error(connection: Connection, version: str) -> DatabaseMoved:
    if version == COPYING:
        return DatabaseMoved(
            "The copy of a database to this one (`anygpu server move`) has not finished, so no server can use it yet.",
            hint="Run the same `anygpu server move` again; it continues the copy.",
        )
    target = get_property(connection, MOVED_TO_PROPERTY) or "another database"
    return DatabaseMoved(
        f"This database was moved to {target}. A server that used this file would miss everything that has happened "
        "since.",
        hint="Set store.database to the new database. This file is only a backup.",
    )


def _require_no_old_servers(connection: Connection) -> None:
    """Raise OldServersRun while a server runs that could not use the migrated tables."""
    if (current_version(connection) or "") < "0010":  # servers did not record themselves
        return
    sql = "SELECT url, version FROM servers WHERE schema_version < ? AND expires_ms > ? ORDER BY id"
    old = fetch_all(connection, sql, (OLDEST_SERVER, now_ms(connection)))
    if old:
        listed = ", ".join(f"{url} (version {version})" for url, version in old)
        raise OldServersRun(
            f"This version of anygpu changes tables of the database that older servers still use: {listed}.",
            hint="Stop these servers, then start this one. The jobs keep running.",
        )


def current_version(connection: Connection) -> str | None:
    """Return the schema version of the database, or None if the database has no tables."""
    query = _PG_HAS_VERSION if connection.dialect.name == "postgresql" else _SQLITE_HAS_VERSION
    if connection.exec_driver_sql(query).scalar() is None:
        return None
    version: str | None = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
    return version


_PG_HAS_VERSION = "SELECT to_regclass('alembic_version')"
_SQLITE_HAS_VERSION = "SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'"


def create_tables(connection: Connection, version: str = SCHEMA_VERSION) -> None:
    """Create the newest tables in an empty database, and record their version.

    A test checks that the migrations create the same tables.
    """
    from anygpu.store.sql.engine.tables import METADATA

    METADATA.create_all(connection)
    connection.exec_driver_sql(
        "CREATE TABLE alembic_version ("
        "version_num VARCHAR(32) NOT NULL, CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
    )
    execute(connection, "INSERT INTO alembic_version VALUES (?)", (version,))
    set_property(connection, _OLDEST_PROPERTY, OLDEST_SERVER)


def upgrade(connection: Connection) -> None:
    from alembic import command
    from alembic.config import Config
    from alembic.util.exc import CommandError

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        raise SchemaTooNew(
            f"This database was written by a newer version of anygpu ({error}).",
            hint="Install the newer version of anygpu, or use another database (setting store.database).",
        ) from error


@contextlib.contextmanager
def migration_lock(connection: Connection) -> Iterator[None]:
    if connection.dialect.name == "postgresql":
        with connection.begin():
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")
            yield
        return
    connection.exec_driver_sql("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        connection.exec_driver_sql("ROLLBACK")
        raise
    connection.exec_driver_sql("COMMIT")
