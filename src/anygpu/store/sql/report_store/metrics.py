"""Store metrics in batches as they arrive.

A batch has points of many series (metrics), which suits clients that follow a job. After every few thousand
points, the new points are also stored in chunks, each with points of one series, which suits charts.
"""

# ruff: noqa: S608 - statements are built from constants; every value is a parameter

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan, nan
from operator import itemgetter

from sqlalchemy import Connection

from anygpu.bounds import MAX_METRIC_NAMES, MAX_NAME_LENGTH
from anygpu.store.reports import MetricPoint
from anygpu.store.sql.engine.statements import Row, execute, execute_many, fetch_all, fetch_one, placeholders
from anygpu.store.sql.report_store.attempts import AttemptRecord
from anygpu.store.sql.report_store.metric_encoding import PointColumns, decode_points, encode_points, sketch

SORT_AT_POINTS = 16384
SORT_AT_BATCHES = 512
SMALL_BATCH_POINTS = 256  # batches that are smaller on average are merged
CHUNK_POINTS = 4096
MAX_TAIL_RATIO = (
    3  # the newest chunk is rewritten while it is at most this many times larger than the new points
)


@dataclass(slots=True)
class MetricSeries:
    """A row of the table `metric_series` without the column `attempt_id`.

    The fields have the order of the columns; None means NaN.
    """

    series: int
    name: str
    count: int = 0
    low: float | None = None
    high: float | None = None
    last: float | None = None
    last_step: int = 0
    tail_first: int = 0
    tail_count: int = 0

    def add(self, values: Sequence[float], last_step: int) -> None:
        numbers = [value for value in values if value == value] if isnan(sum(values)) else values
        if numbers:
            low, high = min(numbers), max(numbers)
            self.low = low if self.low is None else min(low, self.low)
            self.high = high if self.high is None else max(high, self.high)
        self.count += len(values)
        self.last = values[-1] if values[-1] == values[-1] else None
        self.last_step = last_step

    def row(self, attempt_id: int) -> Row:
        return (
            attempt_id,
            self.series,
            self.name,
            self.count,
            self.low,
            self.high,
            self.last,
            self.last_step,
            self.tail_first,
            self.tail_count,
        )


SERIES_COLUMNS = "series, name, count, low, high, last, last_step, tail_first, tail_count"
_UPSERT = (
    f"INSERT INTO metric_series (attempt_id, {SERIES_COLUMNS}) VALUES ({placeholders('..........')})"
    " ON CONFLICT (attempt_id, series) DO UPDATE SET count = excluded.count, low = excluded.low,"
    " high = excluded.high, last = excluded.last, last_step = excluded.last_step,"
    " tail_first = excluded.tail_first, tail_count = excluded.tail_count"
)
_NAME = itemgetter(0)


def store(connection: Connection, attempt: AttemptRecord, points: Sequence[MetricPoint]) -> None:
    names = list(dict.fromkeys(map(_NAME, points)))
    series_by_name = _find_or_add_series(connection, attempt, names)
    kept = (
        points
        if len(series_by_name) == len(names)
        else [point for point in points if point.name in series_by_name]
    )
    attempt.dropped_points += len(points) - len(kept)
    if not kept:
        return
    _update_summaries(kept, series_by_name)
    execute_many(connection, _UPSERT, [series.row(attempt.id) for series in series_by_name.values()])
    columns = _to_columns(kept, series_by_name)
    sql = "INSERT INTO metric_batches (attempt_id, first, count, data) VALUES (?, ?, ?, ?)"
    execute(connection, sql, (attempt.id, attempt.metric_points + 1, len(kept), encode_points(columns)))
    attempt.metric_points += len(kept)
    attempt.loose_batches += 1
    loose = attempt.metric_points - attempt.sorted_points
    if loose >= SORT_AT_POINTS or attempt.loose_batches >= SORT_AT_BATCHES:
        sort_points(connection, attempt)


def _find_or_add_series(
    connection: Connection, attempt: AttemptRecord, names: list[str]
) -> dict[str, MetricSeries]:
    """Return the series with these names.

    A new series gets the next free number. Names that are too long, and new names beyond the limit of
    `MAX_METRIC_NAMES`, are left out.
    """
    fitting = [name for name in names if len(name) <= MAX_NAME_LENGTH]
    sql = f"SELECT {SERIES_COLUMNS} FROM metric_series WHERE attempt_id = ? AND name IN ({placeholders(fitting)})"
    series_by_name = {
        row[1]: MetricSeries(*row) for row in fetch_all(connection, sql, (attempt.id, *fitting))
    }
    for name in fitting:
        if name not in series_by_name and attempt.metric_names < MAX_METRIC_NAMES:
            series_by_name[name] = MetricSeries(attempt.metric_names, name)
            attempt.metric_names += 1
    return series_by_name


def _update_summaries(points: Sequence[MetricPoint], series_by_name: dict[str, MetricSeries]) -> None:
    values: dict[str, list[float]] = {name: [] for name in series_by_name}
    for name, _, _, value in points:
        values[name].append(value)
    last_steps = {point[0]: point[1] for point in points}
    for name, new_values in values.items():
        series_by_name[name].add(new_values, last_steps[name])


def _to_columns(points: Sequence[MetricPoint], series_by_name: dict[str, MetricSeries]) -> PointColumns:
    numbers = {name: series.series for name, series in series_by_name.items()}
    return PointColumns(
        array("q", [numbers[point[0]] for point in points]),
        array("q", [point[1] for point in points]),
        array("d", [point[2] for point in points]),
        array("d", [point[3] for point in points]),
    )


def unsorted_points(connection: Connection, attempt_id: int, sorted_points: int) -> tuple[PointColumns, int]:
    """Return the points that are not yet stored in chunks by metric, and the number of batches that contain them."""
    sql = "SELECT data FROM metric_batches WHERE attempt_id = ? AND first > ? ORDER BY first"
    rows = fetch_all(connection, sql, (attempt_id, sorted_points))
    points = PointColumns.empty()
    for (data,) in rows:
        points.extend(decode_points(data))
    return points, len(rows)


def sort_points(connection: Connection, attempt: AttemptRecord) -> None:
    """Store the newest points, which so far are only in batches as they arrived, in chunks by metric.

    Small batches are merged.
    """
    points, batches = unsorted_points(connection, attempt.id, attempt.sorted_points)
    if len(points) < batches * SMALL_BATCH_POINTS:
        _merge_batches(connection, attempt, points)
    by_series: dict[int, list[int]] = {series: [] for series in sorted(set(points.keys))}
    for index, series in enumerate(points.keys):
        by_series[series].append(index)
    ordinals = array("q", range(attempt.sorted_points + 1, attempt.sorted_points + 1 + len(points)))
    points = PointColumns(ordinals, points.steps, points.times, points.values)
    sql = f"SELECT {SERIES_COLUMNS} FROM metric_series WHERE attempt_id = ?"
    series_by_number = {row[0]: MetricSeries(*row) for row in fetch_all(connection, sql, (attempt.id,))}
    for number, indices in by_series.items():
        _append_to_series(connection, attempt.id, series_by_number[number], points.take(indices))
    execute_many(connection, _UPSERT, [series_by_number[number].row(attempt.id) for number in by_series])
    attempt.sorted_points += len(points)
    attempt.loose_batches = 0


def _merge_batches(connection: Connection, attempt: AttemptRecord, points: PointColumns) -> None:
    execute(
        connection,
        "DELETE FROM metric_batches WHERE attempt_id = ? AND first > ?",
        (attempt.id, attempt.sorted_points),
    )
    sql = "INSERT INTO metric_batches (attempt_id, first, count, data) VALUES (?, ?, ?, ?)"
    for start in range(0, len(points), CHUNK_POINTS):
        part = points.slice(start, start + CHUNK_POINTS)
        execute(
            connection, sql, (attempt.id, attempt.sorted_points + 1 + start, len(part), encode_points(part))
        )


def _append_to_series(
    connection: Connection, attempt_id: int, series: MetricSeries, points: PointColumns
) -> None:
    """Append points to the newest chunk of the series, or to a new chunk if that one is too large."""
    if (
        0 < series.tail_count <= MAX_TAIL_RATIO * len(points)
        and series.tail_count + len(points) <= CHUNK_POINTS
    ):
        sql = "SELECT data FROM metric_chunks WHERE attempt_id = ? AND series = ? AND first = ?"
        row = fetch_one(connection, sql, (attempt_id, series.series, series.tail_first))
        tail = decode_points(row[0]) if row else PointColumns.empty()
        tail.extend(points)
        points = tail
    for start in range(0, len(points), CHUNK_POINTS):
        _put_chunk(connection, attempt_id, series, points.slice(start, start + CHUNK_POINTS))


def _put_chunk(connection: Connection, attempt_id: int, series: MetricSeries, points: PointColumns) -> None:
    series.tail_first, series.tail_count = points.keys[0], len(points)
    execute(
        connection,
        "INSERT INTO metric_chunks (attempt_id, series, first, last, count, sketch, data)"
        " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (attempt_id, series, first) DO UPDATE SET"
        " last = excluded.last, count = excluded.count, sketch = excluded.sketch, data = excluded.data",
        (
            attempt_id,
            series.series,
            points.keys[0],
            points.keys[-1],
            len(points),
            encode_points(sketch(points)),
            encode_points(points),
        ),
    )


def nan_if_none(value: float | None) -> float:
    return nan if value is None else value
