"""Read metrics for charts: at most a given number of points of each series, with the extremes."""

# ruff: noqa: S608 - statements are built from constants; every value is a parameter

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from sqlalchemy import Connection

from anygpu.bounds import MAX_INTEGER
from anygpu.store.reports import MetricPoint, MetricSamples
from anygpu.store.sampling import downsample_indices
from anygpu.store.search import storable_text
from anygpu.store.sql.engine.statements import fetch_all, placeholders
from anygpu.store.sql.report_store.attempts import AttemptRecord
from anygpu.store.sql.report_store.metric_encoding import SKETCH_GROUP, PointColumns, decode_points
from anygpu.store.sql.report_store.metric_queries import to_points
from anygpu.store.sql.report_store.metrics import CHUNK_POINTS, SERIES_COLUMNS, MetricSeries, unsorted_points

# With this many points per drawn point, sketches are precise enough: every bucket has several groups.
DRAW_FROM_SKETCHES = SKETCH_GROUP
ALWAYS_READ_POINTS = 4 * CHUNK_POINTS  # the chunks at the ends of a range have points outside of it


@dataclass(frozen=True, slots=True)
class StepRange:
    """Steps from `low` to `high`, both included."""

    low: int = -MAX_INTEGER
    high: int = MAX_INTEGER

    @classmethod
    def between(cls, low: int | None, high: int | None) -> "StepRange | None":
        """Return the range between two steps; None if neither is given."""
        if low is None and high is None:
            return None
        return cls(-MAX_INTEGER if low is None else low, MAX_INTEGER if high is None else high)

    def select(self, points: PointColumns) -> PointColumns:
        return points.take(index for index, step in enumerate(points.steps) if self.low <= step <= self.high)

    def may_contain(self, sketch: PointColumns) -> bool:
        """Return whether the chunk of this sketch can have points in the range.

        A sketch has the first and the last point of its chunk. If its steps ascend, so do those of the chunk.
        """
        steps = sketch.steps
        ascending = all(step <= following for step, following in pairwise(steps))
        return not ascending or (steps[0] <= self.high and steps[-1] >= self.low)


def sample(
    connection: Connection,
    attempt: AttemptRecord,
    names: Sequence[str],
    max_count: int,
    steps: StepRange | None,
) -> MetricSamples:
    """Return at most `max_count` points of each of these metrics. The newest points are read once for all of them."""
    found = _find_series(connection, attempt.id, names)
    newest = _newest_points(connection, attempt, found) if found else {}
    samples: dict[str, list[MetricPoint]] = {}
    for series in found:
        points = _read_chunks(connection, attempt.id, series, max_count, steps)
        points.extend(newest[series.series])
        if steps is not None:
            points = steps.select(points)
        chosen = points.take(downsample_indices(points.values, max_count))
        samples[series.name] = to_points(series.name, chosen)
    counts = {series.name: series.count for series in found}
    return MetricSamples(points=samples, counts=counts, cursor=attempt.metric_points)


def _find_series(connection: Connection, attempt_id: int, names: Sequence[str]) -> list[MetricSeries]:
    storable = [storable_text(name) for name in dict.fromkeys(names)]
    sql = f"SELECT {SERIES_COLUMNS} FROM metric_series WHERE attempt_id = ?"
    sql += f" AND name IN ({placeholders(storable)})"
    return [MetricSeries(*row) for row in fetch_all(connection, sql, (attempt_id, *storable))]


def _newest_points(
    connection: Connection, attempt: AttemptRecord, wanted: Sequence[MetricSeries]
) -> dict[int, PointColumns]:
    """Return the newest points of each metric, which are not yet stored in chunks by metric."""
    points, _ = unsorted_points(connection, attempt.id, attempt.sorted_points)
    indices: dict[int, list[int]] = {series.series: [] for series in wanted}
    for index, number in enumerate(points.keys):
        if number in indices:
            indices[number].append(index)
    return {number: points.take(its) for number, its in indices.items()}


def _read_chunks(
    connection: Connection, attempt_id: int, series: MetricSeries, max_count: int, steps: StepRange | None
) -> PointColumns:
    key = (attempt_id, series.series)
    if steps is None and series.count <= max_count * DRAW_FROM_SKETCHES:
        return _read_points(connection, "data", key)
    if steps is None:
        return _read_points(connection, "sketch", key)
    return _read_range(connection, key, max_count, steps)


def _read_range(
    connection: Connection, key: tuple[int, int], max_count: int, steps: StepRange
) -> PointColumns:
    """Return the points of the chunks that can have steps of the range, or sketches of these chunks if there are many.

    A sketch is a chunk reduced to its extremes.
    """
    sql = "SELECT first, count, sketch FROM metric_chunks WHERE attempt_id = ? AND series = ? ORDER BY first"
    rows = ((first, count, decode_points(data)) for first, count, data in fetch_all(connection, sql, key))
    near = [row for row in rows if steps.may_contain(row[2])]
    points = PointColumns.empty()
    if sum(count for _, count, _ in near) > max(max_count * DRAW_FROM_SKETCHES, ALWAYS_READ_POINTS):
        for _, _, part in near:
            points.extend(part)
    elif near:
        points = _read_points(connection, "data", key, near[0][0], near[-1][0])
    return points


def _read_points(
    connection: Connection, column: str, key: tuple[int, int], first: int = 0, last: int = MAX_INTEGER
) -> PointColumns:
    sql = f"SELECT {column} FROM metric_chunks WHERE attempt_id = ? AND series = ?"
    sql += " AND first >= ? AND first <= ? ORDER BY first"
    points = PointColumns.empty()
    for (data,) in fetch_all(connection, sql, (*key, first, last)):
        points.extend(decode_points(data))
    return points
