"""Turn a database of the current version into one of an older version."""

from sqlalchemy import Connection

from anygpu.store.sql.statements import execute

TABLES_ADDED = {
    "0002": ("profiles",),
    "0003": ("slot_usages",),
    "0004": ("outcomes",),
    "0005": ("deleted_jobs",),
    "0006": ("properties",),
}
COLUMNS_ADDED = {"0006": (("tokens", "parent", "tokens_of_parent"),)}  # table, column, its index


def downgrade(connection: Connection, to: str) -> None:
    for version, tables in TABLES_ADDED.items():
        for table in tables if version > to else ():
            execute(connection, f"DROP TABLE {table}")
    for version, columns in COLUMNS_ADDED.items():
        for table, column, index in columns if version > to else ():
            execute(connection, f"DROP INDEX {index}")
            execute(connection, f"ALTER TABLE {table} DROP COLUMN {column}")
    execute(connection, "UPDATE alembic_version SET version_num = ?", (to,))
