"""Rows of a table as plain tuples that are equal in SQLite and in PostgreSQL, in the order of the primary key."""

# ruff: noqa: S608 - statements are built from the names of our own tables and columns

import hashlib
import struct
from collections.abc import Callable, Iterator
from typing import Any

from sqlalchemy import Boolean, Column, Connection, Float, Integer, LargeBinary, String, Table

from anygpu.errors import AnygpuError
from anygpu.store.sql.engine.tables import METADATA

Row = tuple[Any, ...]
ROWS_PER_FETCH = 500
# The addresses of running servers. A database that is moved has none.
NOT_COPIED = frozenset({"servers"})
# Properties about the move itself, which differ between the two databases.
MOVE_PROPERTIES = frozenset({"move_id", "moved_to", "move_source", "moved_from"})


class MoveRefused(AnygpuError):
    """The database cannot be moved. Read the reason."""

    code = "move_refused"


def copied_tables() -> list[Table]:
    """Return all tables that a move copies, each after the tables that it refers to."""
    return [table for table in METADATA.sorted_tables if table.name not in NOT_COPIED]


def quote(name: str) -> str:
    return f'"{name}"'


def column_list(table: Table) -> str:
    return ", ".join(quote(column.name) for column in table.columns)


def key_positions(table: Table) -> list[int]:
    """Return the positions of the primary key's columns in a row."""
    names = [column.name for column in table.columns]
    return [names.index(column.name) for column in table.primary_key.columns]


class RowReader:
    """Reads the rows of a table in the order of its primary key. Text is compared by its UTF-8 bytes.

    `replaced` counts texts with bytes that PostgreSQL cannot store; they are damaged, and the bytes are replaced.
    """

    def __init__(self, table: Table) -> None:
        self._table = table
        self._converters = [_converter(column) for column in table.columns]
        self.replaced = 0

    def from_sqlite(self, connection: Connection) -> Iterator[Row]:
        order = ", ".join(quote(column.name) for column in self._table.primary_key.columns)
        driver: Any = connection.connection.driver_connection
        cursor = driver.cursor()
        cursor.execute(f"SELECT {_raw_columns(self._table)} FROM {quote(self._table.name)} ORDER BY {order}")
        while rows := cursor.fetchmany(ROWS_PER_FETCH):
            yield from (row for row in map(self._convert_row, rows) if _belongs(self._table, row))

    def from_postgres(self, connection: Connection) -> Iterator[Row]:
        """Yield the rows. A cursor on the server limits how many rows are in memory."""
        order = ", ".join(_binary_order(column) for column in self._table.primary_key.columns)
        driver: Any = connection.connection.driver_connection
        with driver.cursor(name="anygpu_move") as cursor:
            cursor.itersize = ROWS_PER_FETCH
            cursor.execute(
                f"SELECT {column_list(self._table)} FROM {quote(self._table.name)} ORDER BY {order}"
            )
            yield from (row for row in cursor if _belongs(self._table, row))

    def _convert_row(self, values: Row) -> Row:
        row: list[Any] = []
        for column, convert, value in zip(self._table.columns, self._converters, values, strict=True):
            try:
                row.append(None if value is None else convert(value))
            except (TypeError, ValueError) as error:
                raise MoveRefused(
                    f"The table {self._table.name} has a damaged row {values[:3]!r}: the column {column.name} contains "
                    f"{str(value)[:50]!r}, which is not a {column.type.python_type.__name__} ({error}).",
                    hint="Restore the database from a backup, or delete the job that the row belongs to.",
                ) from error
            if isinstance(column.type, String) and value is not None:
                self.replaced += row[-1].encode() != value
        return tuple(row)


def _raw_columns(table: Table) -> str:
    """Return the columns for SQLite. Text is read as bytes, because damaged text is not always valid UTF-8."""
    return ", ".join(
        f"CAST({quote(column.name)} AS BLOB)" if isinstance(column.type, String) else quote(column.name)
        for column in table.columns
    )


def _belongs(table: Table, row: Row) -> bool:
    return table.name != "properties" or row[0] not in MOVE_PROPERTIES


def _binary_order(column: Column[Any]) -> str:
    collation = ' COLLATE "C"' if isinstance(column.type, String) else ""
    return quote(column.name) + collation


def _converter(column: Column[Any]) -> Callable[[Any], Any]:
    kind = column.type
    if isinstance(kind, LargeBinary):
        return lambda value: value.encode() if isinstance(value, str) else bytes(value)
    if isinstance(kind, Boolean):
        return bool
    if isinstance(kind, Float):
        return float
    if isinstance(kind, String):
        return _to_text
    assert isinstance(kind, Integer), f"{column} has a type that the move does not know"
    return _to_integer


def _to_text(value: bytes) -> str:
    """Return a text that PostgreSQL can store: valid UTF-8 without the character NUL."""
    return value.decode("utf-8", "replace").replace("\0", "\ufffd")


def _to_integer(value: Any) -> int:
    if isinstance(value, int):
        return value
    raise TypeError("it is not a whole number")


class RowDigest:
    """The number of rows of a table, and a SHA-256 of their content."""

    def __init__(self) -> None:
        self.rows = 0
        self._sha = hashlib.sha256()

    def add(self, row: Row) -> None:
        self.rows += 1
        for value in row:
            data = value if isinstance(value, bytes) else _encode(value)
            self._sha.update(struct.pack(">cQ", type(value).__name__[:1].encode(), len(data)))
            self._sha.update(data)

    @property
    def sha256(self) -> str:
        return self._sha.hexdigest()


def _encode(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else repr(value).encode()
