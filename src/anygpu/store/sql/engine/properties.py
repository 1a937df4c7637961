"""Named values that belong to the whole database, such as the fingerprints of the server's keys."""

from sqlalchemy import Connection

from anygpu.store.sql.engine.statements import execute, fetch_one


def get_property(connection: Connection, name: str) -> str | None:
    row = fetch_one(connection, "SELECT value FROM properties WHERE name = ?", (name,))
    return None if row is None else str(row[0])


def set_property(connection: Connection, name: str, value: str) -> None:
    sql = (
        "INSERT INTO properties (name, value) VALUES (?, ?)"
        " ON CONFLICT (name) DO UPDATE SET value = excluded.value"
    )
    execute(connection, sql, (name, value))


def set_property_once(connection: Connection, name: str, value: str) -> str:
    """Set a property unless it has a value. Return its value, which may be that of another process."""
    execute(
        connection, "INSERT INTO properties (name, value) VALUES (?, ?) ON CONFLICT DO NOTHING", (name, value)
    )
    return get_property(connection, name) or value
