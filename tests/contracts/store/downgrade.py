"""Turn a database of the current version into one of an older version."""

from sqlalchemy import Connection

from anygpu.store.sql.engine.statements import execute

TABLES_ADDED = {
    "0002": ("profiles",),
    "0003": ("slot_usages",),
    "0004": ("outcomes",),
    "0005": ("deleted_jobs",),
    "0006": ("properties",),
    "0007": ("log_marks",),
    "0008": ("job_counts",),
    "0009": ("costs",),
    "0010": ("servers",),
}
COLUMNS_ADDED = {  # table, column, its index
    "0006": (("tokens", "parent", "tokens_of_parent"),),
    "0007": tuple(
        ("attempts", name, "") for name in ("log_lines", "log_line_start", "log_marked", "log_marked_ms")
    ),
    "0008": (("attempts", "main_metric", ""),),
}


def downgrade(connection: Connection, to: str) -> None:
    for version, tables in TABLES_ADDED.items():
        for table in tables if version > to else ():
            execute(connection, f"DROP TABLE {table}")
    for version, columns in COLUMNS_ADDED.items():
        for table, column, index in columns if version > to else ():
            if index:
                execute(connection, f"DROP INDEX {index}")
            execute(connection, f"ALTER TABLE {table} DROP COLUMN {column}")
    execute(connection, "UPDATE alembic_version SET version_num = ?", (to,))
