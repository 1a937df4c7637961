"""Reading metrics: in the order they came, for those who follow; by metric, for those who draw."""

# ruff: noqa: S608 - statements are put together from our own words; every value is a parameter

from collections.abc import Iterator

from sqlalchemy import Connection

from anygpu.store.evidence import Point, SeriesSummary
from anygpu.store.sampling import pick
from anygpu.store.search import storable
from anygpu.store.sql.attempts import Attempt
from anygpu.store.sql.metrics import SERIES, Series, loose_points, number
from anygpu.store.sql.packing import SKETCHED, Columns, unpack
from anygpu.store.sql.statements import row, rows

AT_ONCE = 32  # rows
# From so many points a drawn one on, sketches are fine enough: every bucket holds several sketched groups.
DRAW_FROM_SKETCHES = SKETCHED


def summaries(connection: Connection, attempt_id: int) -> list[SeriesSummary]:
    sql = f"SELECT {SERIES} FROM metric_series WHERE attempt_id = ?"
    known = [Series(*found) for found in rows(connection, sql, (attempt_id,))]
    return [
        SeriesSummary(
            name=series.name,
            count=series.count,
            min=number(series.low),
            max=number(series.high),
            last=number(series.last),
            last_step=series.last_step,
        )
        for series in sorted(known, key=lambda series: series.name)
    ]


def follow(connection: Connection, attempt: Attempt, after: int, limit: int) -> tuple[list[Point], int]:
    """Points of every metric after the cursor, in the order they came."""
    names = {
        found[0]: found[1]
        for found in rows(
            connection, "SELECT series, name FROM metric_series WHERE attempt_id = ?", (attempt.id,)
        )
    }
    points: list[Point] = []
    for first, batch in _batches(connection, attempt.id, after):
        skip = max(0, after + 1 - first)
        part = batch.slice(skip, skip + limit - len(points))
        points += map(Point, map(names.__getitem__, part.keys), part.steps, part.times, part.values)
        after = first + skip + len(part) - 1
        if len(points) >= limit:
            return points, after
    return points, max(after, attempt.metric_points)


def _batches(connection: Connection, attempt_id: int, after: int) -> Iterator[tuple[int, Columns]]:
    found = row(
        connection,
        "SELECT max(first) FROM metric_batches WHERE attempt_id = ? AND first <= ?",
        (attempt_id, after + 1),
    )
    start = found[0] if found and found[0] is not None else 0
    sql = "SELECT first, data FROM metric_batches WHERE attempt_id = ? AND first >= ? ORDER BY first LIMIT ?"
    while batches := rows(connection, sql, (attempt_id, start, AT_ONCE)):
        yield from ((first, unpack(data)) for first, data in batches)
        start = batches[-1][0] + 1


def follow_one(
    connection: Connection, attempt: Attempt, name: str, after: int, limit: int
) -> tuple[list[Point], int]:
    """Points of one metric after the cursor."""
    series = _find(connection, attempt.id, name)
    found = Columns.empty()
    for chunk in _chunks(connection, attempt, series, after) if series else ():
        found.extend(chunk.at(index for index, ordinal in enumerate(chunk.keys) if ordinal > after))
        if len(found) >= limit:
            part = found.slice(0, limit)
            return _points(name, part), part.keys[-1]
    return _points(name, found), max(after, attempt.metric_points)


def _chunks(connection: Connection, attempt: Attempt, series: Series, after: int) -> Iterator[Columns]:
    sql = (
        "SELECT first, data FROM metric_chunks WHERE attempt_id = ? AND series = ? AND first > ? AND last > ?"
        " ORDER BY first LIMIT ?"
    )
    start = 0
    while chunks := rows(connection, sql, (attempt.id, series.series, start, after, AT_ONCE)):
        yield from (unpack(data) for _, data in chunks)
        start = chunks[-1][0]
    yield _loose(connection, attempt, series)


def sample(connection: Connection, attempt: Attempt, name: str, most: int) -> list[Point]:
    series = _find(connection, attempt.id, name)
    if series is None:
        return []
    column = "sketch" if series.count > most * DRAW_FROM_SKETCHES else "data"
    sql = f"SELECT {column} FROM metric_chunks WHERE attempt_id = ? AND series = ? ORDER BY first"
    found = Columns.empty()
    for (data,) in rows(connection, sql, (attempt.id, series.series)):
        found.extend(unpack(data))
    found.extend(_loose(connection, attempt, series))
    return _points(name, found.at(pick(found.values, most)))


def _find(connection: Connection, attempt_id: int, name: str) -> Series | None:
    sql = f"SELECT {SERIES} FROM metric_series WHERE attempt_id = ? AND name = ?"
    found = row(connection, sql, (attempt_id, storable(name)))
    return Series(*found) if found else None


def _loose(connection: Connection, attempt: Attempt, series: Series) -> Columns:
    """Its points that are in no chunk yet, with ordinals for keys as in a chunk."""
    points, _ = loose_points(connection, attempt.id, attempt.sorted_points)
    indices = [index for index, its in enumerate(points.keys) if its == series.series]
    found = points.at(indices)
    for place, index in enumerate(indices):
        found.keys[place] = attempt.sorted_points + 1 + index
    return found


def _points(name: str, columns: Columns) -> list[Point]:
    return [Point(name, *rest) for rest in zip(columns.steps, columns.times, columns.values, strict=True)]
