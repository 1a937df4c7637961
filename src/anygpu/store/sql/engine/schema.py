"""Create or migrate the tables. Alembic takes half a second to import, so it is imported only when needed."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import Connection, Engine

from anygpu.errors import AnygpuError

SCHEMA_VERSION = "0009"  # version of `tables.py` and of the newest migration
MIGRATIONS = Path(__file__).parents[1] / "migrations"
# An arbitrary number, the same in every process, so that only one migrates at a time.
_LOCK = 5_147_280_001


def ensure_schema(engine: Engine) -> None:
    with engine.connect() as connection:
        if current_version(connection) == SCHEMA_VERSION:
            return
    with engine.connect() as connection, _migration_lock(connection):
        version = current_version(connection)
        if version is None:
            _create_tables(connection)
        elif version != SCHEMA_VERSION:
            upgrade(connection)


def current_version(connection: Connection) -> str | None:
    """Return the schema version of the database, or None if the database has no tables."""
    query = _PG_HAS_VERSION if connection.dialect.name == "postgresql" else _SQLITE_HAS_VERSION
    if connection.exec_driver_sql(query).scalar() is None:
        return None
    version: str | None = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
    return version


_PG_HAS_VERSION = "SELECT to_regclass('alembic_version')"
_SQLITE_HAS_VERSION = "SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'"


def _create_tables(connection: Connection) -> None:
    """Create the newest tables in an empty database.

    A test checks that the migrations create the same tables.
    """
    from anygpu.store.sql.engine.tables import METADATA

    METADATA.create_all(connection)
    connection.exec_driver_sql(
        "CREATE TABLE alembic_version ("
        "version_num VARCHAR(32) NOT NULL, CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
    )
    connection.exec_driver_sql(f"INSERT INTO alembic_version VALUES ('{SCHEMA_VERSION}')")  # noqa: S608


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
        raise AnygpuError(
            f"This database was written by a newer version of anygpu ({error}).",
            hint="Install the newer version of anygpu, or use another database (setting store.database).",
        ) from error


@contextlib.contextmanager
def _migration_lock(connection: Connection) -> Iterator[None]:
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
