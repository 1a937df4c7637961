"""Storing metrics: a batch as it came, at once; then, every few thousand points, sorted by metric as well."""

# ruff: noqa: S608 - statements are put together from our own words; every value is a parameter

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan, nan
from operator import itemgetter

from sqlalchemy import Connection

from anygpu.store.evidence import MAX_NAME_LENGTH, MAX_NAMES, Point
from anygpu.store.sql.attempts import Attempt
from anygpu.store.sql.packing import Columns, pack, sketch, unpack
from anygpu.store.sql.statements import Row, marks, row, rows, run, run_many

SORT_AT_POINTS = 16384
SORT_AT_BATCHES = 512
JOIN_BELOW = 256  # points a row on average: larger batches stay as they came
CHUNK = 4096  # points
GROWTH = 3  # a chunk is rewritten while it is not much larger than what is added to it


@dataclass(slots=True)
class Series:
    """The columns of `metric_series` after the attempt's, in this order. NaN where there was no number."""

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


SERIES = "series, name, count, low, high, last, last_step, tail_first, tail_count"
_UPSERT = (
    f"INSERT INTO metric_series (attempt_id, {SERIES}) VALUES ({marks('..........')})"
    " ON CONFLICT (attempt_id, series) DO UPDATE SET count = excluded.count, low = excluded.low,"
    " high = excluded.high, last = excluded.last, last_step = excluded.last_step,"
    " tail_first = excluded.tail_first, tail_count = excluded.tail_count"
)
_NAME = itemgetter(0)


def store(connection: Connection, attempt: Attempt, points: Sequence[Point]) -> None:
    names = list(dict.fromkeys(map(_NAME, points)))
    known = _series(connection, attempt, names)
    kept = points if len(known) == len(names) else [point for point in points if point.name in known]
    attempt.dropped_points += len(points) - len(kept)
    if not kept:
        return
    _summarize(kept, known)
    run_many(connection, _UPSERT, [series.row(attempt.id) for series in known.values()])
    columns = _columns(kept, known)
    sql = "INSERT INTO metric_batches (attempt_id, first, count, data) VALUES (?, ?, ?, ?)"
    run(connection, sql, (attempt.id, attempt.metric_points + 1, len(kept), pack(columns)))
    attempt.metric_points += len(kept)
    attempt.loose_batches += 1
    loose = attempt.metric_points - attempt.sorted_points
    if loose >= SORT_AT_POINTS or attempt.loose_batches >= SORT_AT_BATCHES:
        sort(connection, attempt)


def _series(connection: Connection, attempt: Attempt, names: list[str]) -> dict[str, Series]:
    """The series of these names, numbered when they are new; not those beyond the limits."""
    fitting = [name for name in names if len(name) <= MAX_NAME_LENGTH]
    sql = f"SELECT {SERIES} FROM metric_series WHERE attempt_id = ? AND name IN ({marks(fitting)})"
    known = {found[1]: Series(*found) for found in rows(connection, sql, (attempt.id, *fitting))}
    for name in fitting:
        if name not in known and attempt.metric_names < MAX_NAMES:
            known[name] = Series(attempt.metric_names, name)
            attempt.metric_names += 1
    return known


def _summarize(points: Sequence[Point], known: dict[str, Series]) -> None:
    values: dict[str, list[float]] = {name: [] for name in known}
    for name, _, _, value in points:
        values[name].append(value)
    last_steps = {point[0]: point[1] for point in points}
    for name, its in values.items():
        known[name].add(its, last_steps[name])


def _columns(points: Sequence[Point], known: dict[str, Series]) -> Columns:
    numbers = {name: series.series for name, series in known.items()}
    return Columns(
        array("q", [numbers[point[0]] for point in points]),
        array("q", [point[1] for point in points]),
        array("d", [point[2] for point in points]),
        array("d", [point[3] for point in points]),
    )


def loose_points(connection: Connection, attempt_id: int, sorted_points: int) -> tuple[Columns, int]:
    """What is not sorted yet, and in how many rows."""
    sql = "SELECT data FROM metric_batches WHERE attempt_id = ? AND first > ? ORDER BY first"
    found = rows(connection, sql, (attempt_id, sorted_points))
    points = Columns.empty()
    for (data,) in found:
        points.extend(unpack(data))
    return points, len(found)


def sort(connection: Connection, attempt: Attempt) -> None:
    """Put the loose points into chunks by metric, and small batches together."""
    points, batches = loose_points(connection, attempt.id, attempt.sorted_points)
    if len(points) < batches * JOIN_BELOW:
        _join(connection, attempt, points)
    by_series: dict[int, list[int]] = {series: [] for series in sorted(set(points.keys))}
    for index, series in enumerate(points.keys):
        by_series[series].append(index)
    ordinals = array("q", range(attempt.sorted_points + 1, attempt.sorted_points + 1 + len(points)))
    points = Columns(ordinals, points.steps, points.times, points.values)
    sql = f"SELECT {SERIES} FROM metric_series WHERE attempt_id = ?"
    known = {found[0]: Series(*found) for found in rows(connection, sql, (attempt.id,))}
    for number, indices in by_series.items():
        _grow(connection, attempt.id, known[number], points.at(indices))
    run_many(connection, _UPSERT, [known[number].row(attempt.id) for number in by_series])
    attempt.sorted_points += len(points)
    attempt.loose_batches = 0


def _join(connection: Connection, attempt: Attempt, points: Columns) -> None:
    run(
        connection,
        "DELETE FROM metric_batches WHERE attempt_id = ? AND first > ?",
        (attempt.id, attempt.sorted_points),
    )
    sql = "INSERT INTO metric_batches (attempt_id, first, count, data) VALUES (?, ?, ?, ?)"
    for start in range(0, len(points), CHUNK):
        part = points.slice(start, start + CHUNK)
        run(connection, sql, (attempt.id, attempt.sorted_points + 1 + start, len(part), pack(part)))


def _grow(connection: Connection, attempt_id: int, series: Series, points: Columns) -> None:
    """Add to the newest chunk of the series, or begin the next."""
    if 0 < series.tail_count <= GROWTH * len(points) and series.tail_count + len(points) <= CHUNK:
        sql = "SELECT data FROM metric_chunks WHERE attempt_id = ? AND series = ? AND first = ?"
        found = row(connection, sql, (attempt_id, series.series, series.tail_first))
        tail = unpack(found[0]) if found else Columns.empty()
        tail.extend(points)
        points = tail
    for start in range(0, len(points), CHUNK):
        _put_chunk(connection, attempt_id, series, points.slice(start, start + CHUNK))


def _put_chunk(connection: Connection, attempt_id: int, series: Series, points: Columns) -> None:
    series.tail_first, series.tail_count = points.keys[0], len(points)
    run(
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
            pack(sketch(points)),
            pack(points),
        ),
    )


def number(value: float | None) -> float:
    return nan if value is None else value
