"""Marks in both databases that say how far a move is, so that it can be repeated after a crash at any point.

1. The source gets a random id (property `move_id`).
2. The target gets all tables, the schema version `copying` and the same id (`move_source`). No server starts on it.
3. All rows are copied and verified.
4. The source gets the schema version `moved`. From now on no server starts on it.
5. The target gets its real schema version and `moved_from`. Servers can use it.
"""

import secrets
from enum import StrEnum

from sqlalchemy import Connection, Engine, inspect

from anygpu.store.move.rows import MoveRefused
from anygpu.store.sql.engine.properties import get_property, set_property, set_property_once
from anygpu.store.sql.engine.schema import (
    COPYING,
    MOVED,
    MOVED_TO_PROPERTY,
    SCHEMA_VERSION,
    create_tables,
    current_version,
    migration_lock,
)
from anygpu.store.sql.engine.statements import execute
from anygpu.store.sql.engine.tables import METADATA

_ID, _SOURCE, _FROM = "move_id", "move_source", "moved_from"


class TargetState(StrEnum):
    """What the target of a move is."""

    EMPTY = "empty"
    UNFINISHED = "unfinished"  # the same move began earlier
    FINISHED = "finished"  # the same move has been completed


def is_moved(source: Connection) -> bool:
    return current_version(source) == MOVED


def move_id(source: Connection) -> str | None:
    return get_property(source, _ID)


def set_move_id(source: Connection) -> str:
    """Give the source a random id, unless it has one. Return the id."""
    return set_property_once(source, _ID, secrets.token_hex(16))


def start_source(source: Connection) -> str:
    """Give the source its id, and end the lease of the server that used it. Return the id."""
    execute(source, "UPDATE leases SET expires_ms = 0")
    return set_move_id(source)


def target_state(target: Connection, source_id: str | None) -> TargetState:
    """Return what the target is. Raise MoveRefused if it must not be overwritten."""
    version = current_version(target)
    if version is None:
        taken = sorted(set(inspect(target).get_table_names()) & set(METADATA.tables))
        if taken:
            raise MoveRefused(
                f"The target database is not empty: it has tables with names that anygpu uses ({', '.join(taken)}).",
                hint="Create an empty database for anygpu.",
            )
        return TargetState.EMPTY
    if version == COPYING and source_id is not None and get_property(target, _SOURCE) == source_id:
        return TargetState.UNFINISHED
    if source_id is not None and get_property(target, _FROM) == source_id:
        return TargetState.FINISHED
    what = (
        "an unfinished copy of another database" if version == COPYING else "tables of another anygpu server"
    )
    raise MoveRefused(
        f"The target database is not empty: it has {what}.", hint="Create an empty database for anygpu."
    )


def start_target(target: Engine, source_id: str) -> None:
    """Create the tables in an empty target, and mark it as an unfinished copy of the source."""
    with target.connect() as connection, migration_lock(connection):
        if target_state(connection, source_id) is TargetState.EMPTY:
            create_tables(connection, COPYING)
            set_property(connection, _SOURCE, source_id)


def finish_source(source: Connection, target_name: str) -> None:
    """Mark the source as moved. No server, also no older one, starts on it any more."""
    execute(source, "UPDATE alembic_version SET version_num = ?", (MOVED,))
    set_property(source, MOVED_TO_PROPERTY, target_name)


def finish_target(target: Engine, source_id: str) -> None:
    with target.begin() as connection:
        execute(connection, "UPDATE alembic_version SET version_num = ?", (SCHEMA_VERSION,))
        execute(connection, "DELETE FROM properties WHERE name = ?", (_SOURCE,))
        set_property(connection, _FROM, source_id)
