"""Copy tables from SQLite to PostgreSQL. A copy can be repeated: only what differs is written."""

# ruff: noqa: S608 - statements are built from the names of our own tables and columns

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Engine, Table

from anygpu.store.move.rows import (
    MoveRefused,
    Row,
    RowDigest,
    RowReader,
    column_list,
    copied_tables,
    key_positions,
    quote,
)
from anygpu.store.sql.engine.statements import fetch_one

ROWS_PER_COMMIT = 2000
BYTES_PER_COMMIT = 16 * 1024 * 1024
OnRows = Callable[[str, int, int], None]  # table, rows read so far, all rows


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSummary:
    """A table that was copied and verified: its rows, their SHA-256, and how many rows this run has written."""

    table: str
    rows: int
    sha256: str
    written: int
    replaced: int  # damaged texts whose invalid bytes were replaced


@dataclass(slots=True)
class _Changes:
    """Rows that differ, collected until they are written in one transaction."""

    new: list[Row] = field(default_factory=list)
    changed: list[Row] = field(default_factory=list)
    extra: list[Row] = field(default_factory=list)  # only in the target
    size: int = 0

    def __len__(self) -> int:
        return len(self.new) + len(self.changed) + len(self.extra)

    def is_full(self) -> bool:
        return len(self) >= ROWS_PER_COMMIT or self.size >= BYTES_PER_COMMIT


def copy_tables(source: Connection, target: Engine, on_rows: OnRows) -> dict[str, int]:
    """Copy all tables. Return how many rows of each table had to be written."""
    return {table.name: _copy_table(source, target, table, on_rows) for table in copied_tables()}


def verify_tables(
    source: Connection, target: Engine, written: dict[str, int], on_rows: OnRows
) -> list[TableSummary]:
    """Compare every row of both databases. Raise MoveRefused if they differ."""
    return [_verify_table(source, target, table, written, on_rows) for table in copied_tables()]


def count_rows(connection: Connection, table: Table) -> int:
    row = fetch_one(connection, f"SELECT count(*) FROM {quote(table.name)}")
    return int(row[0]) if row else 0


def continue_sequences(target: Engine) -> None:
    """Let ids that PostgreSQL generates continue after the highest copied id."""
    for table in copied_tables():
        column = table.autoincrement_column
        if column is None:
            continue
        with target.begin() as connection:
            name = f"pg_get_serial_sequence('{table.name}', '{column.name}')"
            highest = f"(SELECT max({quote(column.name)}) FROM {quote(table.name)})"
            connection.exec_driver_sql(
                f"SELECT setval({name}, coalesce({highest}, 1), {highest} IS NOT NULL)"
            )


def _copy_table(source: Connection, target: Engine, table: Table, on_rows: OnRows) -> int:
    changes, written, total = _Changes(), 0, count_rows(source, table)
    with target.connect() as reading, target.connect() as writing:
        with reading.begin():
            for number, (kind, row) in enumerate(_differences(source, reading, table), 1):
                if kind:
                    getattr(changes, kind).append(row)
                    changes.size += sum(len(value) for value in row if isinstance(value, bytes | str))
                if changes.is_full():
                    written += _write(writing, table, changes)
                    changes = _Changes()
                if number % ROWS_PER_COMMIT == 0:
                    on_rows(table.name, min(number, total), total)
        written += _write(writing, table, changes)
    on_rows(table.name, total, total)
    return written


def _differences(source: Connection, target: Connection, table: Table) -> Iterator[tuple[str, Row]]:
    """Yield every row of both databases, in order of the key, with the change that the target needs ("": none)."""
    positions = key_positions(table)
    ours, theirs = RowReader(table).from_sqlite(source), RowReader(table).from_postgres(target)
    mine, other = next(ours, None), next(theirs, None)
    while mine is not None or other is not None:
        my_key = None if mine is None else [mine[each] for each in positions]
        other_key = None if other is None else [other[each] for each in positions]
        if mine is not None and (other_key is None or (my_key is not None and my_key < other_key)):
            yield "new", mine
            mine = next(ours, None)
        elif other is not None and (my_key is None or (other_key is not None and other_key < my_key)):
            yield "extra", other
            other = next(theirs, None)
        else:
            assert mine is not None
            yield "" if mine == other else "changed", mine
            mine, other = next(ours, None), next(theirs, None)


def _write(connection: Connection, table: Table, changes: _Changes) -> int:
    """Write the changes in one transaction. Return the number of rows."""
    keys = key_positions(table)
    where = " AND ".join(f"{quote(column.name)} = %s" for column in table.primary_key.columns)
    driver: Any = connection.connection.driver_connection
    with connection.begin(), driver.cursor() as cursor:
        # What is only in the target goes first: it may have a name that a new row needs.
        gone = [tuple(row[each] for each in keys) for row in changes.extra]
        if gone:
            cursor.executemany(f"DELETE FROM {quote(table.name)} WHERE {where}", gone)
        if changes.changed:
            cursor.executemany(_update_sql(table), [_update_values(table, row) for row in changes.changed])
        if changes.new:
            sql = f"COPY {quote(table.name)} ({column_list(table)}) FROM STDIN"
            with cursor.copy(sql) as copy:
                for row in changes.new:
                    copy.write_row(row)
    return len(changes)


def _update_sql(table: Table) -> str:
    keys = table.primary_key.columns
    others = [column for column in table.columns if column.name not in keys]
    assignments = ", ".join(f"{quote(column.name)} = %s" for column in others)
    where = " AND ".join(f"{quote(column.name)} = %s" for column in keys)
    return f"UPDATE {quote(table.name)} SET {assignments} WHERE {where}"


def _update_values(table: Table, row: Row) -> Row:
    keys = key_positions(table)
    return (*(value for at, value in enumerate(row) if at not in keys), *(row[each] for each in keys))


def _verify_table(
    source: Connection, target: Engine, table: Table, written: dict[str, int], on_rows: OnRows
) -> TableSummary:
    reader, ours, theirs = RowReader(table), RowDigest(), RowDigest()
    for row in reader.from_sqlite(source):
        ours.add(row)
    with target.connect() as reading, reading.begin():
        for row in RowReader(table).from_postgres(reading):
            theirs.add(row)
    if (ours.rows, ours.sha256) != (theirs.rows, theirs.sha256):
        raise MoveRefused(
            f"The copy of the table {table.name} differs from the original: {ours.rows} rows (SHA-256 "
            f"{ours.sha256[:12]}) and {theirs.rows} rows ({theirs.sha256[:12]}).",
            hint="Check that no other program writes to one of the databases, then run the same command again.",
        )
    on_rows(table.name, ours.rows, ours.rows)
    return TableSummary(
        table=table.name,
        rows=ours.rows,
        sha256=ours.sha256,
        written=written.get(table.name, 0),
        replaced=reader.replaced,
    )
