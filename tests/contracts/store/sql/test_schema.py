"""Tables and migrations."""

from collections.abc import Sequence

from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import Script, ScriptDirectory
from sqlalchemy import Connection, inspect

from anygpu.store.sql.engine.database import Database
from anygpu.store.sql.engine.schema import MIGRATIONS, OLDEST_SERVER, SCHEMA_VERSION, current_version, upgrade
from anygpu.store.sql.engine.statements import execute
from anygpu.store.sql.engine.tables import METADATA


def differences(connection: Connection) -> Sequence[object]:
    found: Sequence[object] = compare_metadata(MigrationContext.configure(connection), METADATA)
    return found


async def test_an_empty_database_gets_the_current_tables(database: Database) -> None:
    assert await database.read(differences) == []
    assert await database.read(current_version) == SCHEMA_VERSION


async def test_migrations_make_the_same_tables(database: Database) -> None:
    def migrate_from_nothing(connection: Connection) -> None:
        METADATA.drop_all(connection)
        execute(connection, "DROP TABLE alembic_version")
        upgrade(connection)

    created = await database.read(columns)
    await database.write(migrate_from_nothing)
    assert await database.read(differences) == []
    assert await database.read(current_version) == SCHEMA_VERSION
    assert await database.read(columns) == created


def test_every_migration_says_which_servers_may_run_beside_it() -> None:
    declared = {each.revision: getattr(each.module, "oldest_server", None) for each in migrations()}
    later = {revision: oldest for revision, oldest in declared.items() if revision >= "0010"}
    assert all(later.values()), "add `oldest_server` to the migration"
    assert max(filter(None, later.values())) == OLDEST_SERVER
    assert max(declared) == SCHEMA_VERSION


def migrations() -> list[Script]:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    return list(ScriptDirectory.from_config(config).walk_revisions())


def columns(connection: Connection) -> dict[str, list[tuple[str, str, bool]]]:
    tables = inspect(connection)
    return {
        table: sorted((c["name"], str(c["type"]), c["nullable"]) for c in tables.get_columns(table))
        for table in sorted(tables.get_table_names())
    }
