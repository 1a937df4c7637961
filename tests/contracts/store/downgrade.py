"""Turn a database of the current version into one of an older version."""

from sqlalchemy import Connection

from anygpu.store.sql.statements import execute

TABLES_ADDED = {
    "0002": ("profiles",),
    "0003": ("slot_usages",),
    "0004": ("outcomes",),
    "0005": ("deleted_jobs",),
}


def downgrade(connection: Connection, to: str) -> None:
    for version, tables in TABLES_ADDED.items():
        for table in tables if version > to else ():
            execute(connection, f"DROP TABLE {table}")
    execute(connection, "UPDATE alembic_version SET version_num = ?", (to,))
