"""Read metrics: summaries, and points in arrival order for clients that follow a job."""

# ruff: noqa: S608 - statements are built from constants; every value is a parameter
from collections.abc import Iterator

from sqlalchemy import Connection

from anygpu.store.reports import MetricPoint, SeriesSummary
from anygpu.store.search import storable_text
from anygpu.store.sql.engine.statements import fetch_all, fetch_one
from anygpu.store.sql.report_store.attempts import AttemptRecord
from anygpu.store.sql.report_store.metric_encoding import PointColumns, decode_points
from anygpu.store.sql.report_store.metrics import SERIES_COLUMNS, MetricSeries, nan_if_none, unsorted_points

ROWS_PER_READ = 32  # batches or chunks per query


def series_summaries(connection: Connection, attempt_id: int) -> list[SeriesSummary]:
    sql = f"SELECT {SERIES_COLUMNS} FROM metric_series WHERE attempt_id = ?"
    all_series = [MetricSeries(*row) for row in fetch_all(connection, sql, (attempt_id,))]
    return [
        SeriesSummary(
            name=series.name,
            count=series.count,
            min=nan_if_none(series.low),
            max=nan_if_none(series.high),
            last=nan_if_none(series.last),
            last_step=series.last_step,
        )
        for series in sorted(all_series, key=lambda series: series.name)
    ]


def points_after(
    connection: Connection, attempt: AttemptRecord, after: int, limit: int
) -> tuple[list[MetricPoint], int]:
    """Return points of all metrics after the cursor `after`, in arrival order, and the next cursor."""
    names = {
        row[0]: row[1]
        for row in fetch_all(
            connection, "SELECT series, name FROM metric_series WHERE attempt_id = ?", (attempt.id,)
        )
    }
    points: list[MetricPoint] = []
    for first, batch in _read_batches(connection, attempt.id, after):
        skip = max(0, after + 1 - first)
        part = batch.slice(skip, skip + limit - len(points))
        points += map(MetricPoint, map(names.__getitem__, part.keys), part.steps, part.times, part.values)
        after = first + skip + len(part) - 1
        if len(points) >= limit:
            return points, after
    return points, max(after, attempt.metric_points)


def _read_batches(connection: Connection, attempt_id: int, after: int) -> Iterator[tuple[int, PointColumns]]:
    row = fetch_one(
        connection,
        "SELECT max(first) FROM metric_batches WHERE attempt_id = ? AND first <= ?",
        (attempt_id, after + 1),
    )
    start = row[0] if row and row[0] is not None else 0
    sql = "SELECT first, data FROM metric_batches WHERE attempt_id = ? AND first >= ? ORDER BY first LIMIT ?"
    while batches := fetch_all(connection, sql, (attempt_id, start, ROWS_PER_READ)):
        yield from ((first, decode_points(data)) for first, data in batches)
        start = batches[-1][0] + 1


def series_points_after(
    connection: Connection, attempt: AttemptRecord, name: str, after: int, limit: int
) -> tuple[list[MetricPoint], int]:
    """Return points of one metric after the cursor `after`, in arrival order, and the next cursor."""
    series = _find_series(connection, attempt.id, name)
    points = PointColumns.empty()
    for chunk in _read_chunks(connection, attempt, series, after) if series else ():
        points.extend(chunk.take(index for index, ordinal in enumerate(chunk.keys) if ordinal > after))
        if len(points) >= limit:
            part = points.slice(0, limit)
            return to_points(name, part), part.keys[-1]
    return to_points(name, points), max(after, attempt.metric_points)


def _read_chunks(
    connection: Connection, attempt: AttemptRecord, series: MetricSeries, after: int
) -> Iterator[PointColumns]:
    sql = (
        "SELECT first, data FROM metric_chunks WHERE attempt_id = ? AND series = ? AND first > ? AND last > ?"
        " ORDER BY first LIMIT ?"
    )
    start = 0
    while chunks := fetch_all(connection, sql, (attempt.id, series.series, start, after, ROWS_PER_READ)):
        yield from (decode_points(data) for _, data in chunks)
        start = chunks[-1][0]
    yield _unsorted_points(connection, attempt, series)


def _find_series(connection: Connection, attempt_id: int, name: str) -> MetricSeries | None:
    sql = f"SELECT {SERIES_COLUMNS} FROM metric_series WHERE attempt_id = ? AND name = ?"
    row = fetch_one(connection, sql, (attempt_id, storable_text(name)))
    return MetricSeries(*row) if row else None


def _unsorted_points(connection: Connection, attempt: AttemptRecord, series: MetricSeries) -> PointColumns:
    """Return the points of a metric that are not yet stored in chunks by metric. `keys` are their arrival numbers."""
    points, _ = unsorted_points(connection, attempt.id, attempt.sorted_points)
    indices = [index for index, its in enumerate(points.keys) if its == series.series]
    selected = points.take(indices)
    for place, index in enumerate(indices):
        selected.keys[place] = attempt.sorted_points + 1 + index
    return selected


def to_points(name: str, columns: PointColumns) -> list[MetricPoint]:
    return [
        MetricPoint(name, *rest) for rest in zip(columns.steps, columns.times, columns.values, strict=True)
    ]
