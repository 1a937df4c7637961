"""Read tables (CSV or Parquet), determine the type of each column, and count its values."""

from __future__ import annotations

import csv
import difflib
import hashlib
import io
import math
import os
import re
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from anygpu.trainers.data.archives import open_dataset
from anygpu.trainers.data.files import text_of
from anygpu.trainers.data.statistics import Spread
from anygpu.trainers.errors import BadDataset, Finding, MissingExtra

NUMBER, CATEGORY, MISSING = "number", "category", "missing"
CSV, PARQUET = (".csv", ".tsv", ".txt"), (".parquet", ".pq")
ABSENT = frozenset({"", "na", "n/a", "nan", "null", "none", "?"})
# Identifiers, not numbers: leading zeros, or more digits than a float can hold.
_NAME_OF_DIGITS = re.compile(r"[+-]?(0\d+|\d{16,})")

Value = float | str | None


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table whose columns have one type each: numbers (floats) or categories (strings).

    Missing values are None.
    """

    path: Path
    columns: tuple[str, ...]
    kinds: tuple[str, ...]  # "number", "category", or "missing" if all values are missing
    rows: tuple[tuple[Value, ...], ...]
    sha256: str  # hash of column names and values

    def column(self, name: str) -> tuple[Value, ...]:
        at = self.columns.index(name)
        return tuple(row[at] for row in self.rows)


def load_table(
    path: str | os.PathLike[str], *, target: str = "", cache_dir: str | os.PathLike[str] | None = None
) -> Table:
    """Read a CSV, TSV or Parquet file, or the only such file in a folder or archive.

    Raise one BadDataset that lists every problem. `target`: a column that must exist.
    """
    file = _file(open_dataset(path, cache_dir))
    names, values = _parquet(file) if file.suffix.lower() in PARQUET else _csv(file)
    _check_names(file, names, target)
    typed = [_with_type(column) for column in values]
    rows = tuple(zip(*(column for _, column in typed), strict=True))
    if not rows:
        raise BadDataset([Finding(file, "the table has columns but no rows; add rows of data")])
    return Table(
        path=file,
        columns=tuple(names),
        kinds=tuple(kind for kind, _ in typed),
        rows=rows,
        sha256=_sha256(names, rows),
    )


def _sha256(names: Sequence[str], rows: Sequence[Sequence[Value]]) -> str:
    digest = hashlib.sha256(repr(list(names)).encode())
    for row in rows:
        digest.update(repr(row).encode())
    return digest.hexdigest()


def _file(place: Path) -> Path:
    if not place.exists():
        raise BadDataset([Finding(place, "does not exist; check the path of the table")])
    if not place.is_dir():
        if place.suffix.lower() in (*CSV, *PARQUET):
            return place
        raise BadDataset([Finding(place, "is not a table; give a .csv, .tsv or .parquet file")])
    tables = sorted(path for path in place.rglob("*") if path.suffix.lower() in (".csv", ".tsv", *PARQUET))
    if len(tables) != 1:
        listed = ", ".join(path.name for path in tables[:5]) or "none"
        raise BadDataset(
            [
                Finding(
                    place,
                    f"has to contain exactly one table; give the path of one file instead. Tables found: {listed}",
                )
            ]
        )
    return tables[0]


def _csv(file: Path) -> tuple[list[str], list[list[Any]]]:
    text = text_of(file)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=_delimiter(text), strict=True)
    rows: list[list[str]] = []
    findings: list[Finding] = []
    try:
        for row in reader:
            if row and rows and len(row) != len(rows[0]):
                what = f"the line has {len(row)} values, but the first line has {len(rows[0])} columns"
                findings.append(Finding(file, what, reader.line_num))
            elif row:
                rows.append(row)
    except csv.Error as error:
        findings.append(Finding(file, f"is not valid CSV: {error}; correct this line", reader.line_num))
    if findings or not rows:
        raise BadDataset(
            findings or [Finding(file, "the table is empty; add a line of column names and rows of data")]
        )
    names, *body = rows
    return [name.strip() for name in names], [[row[at] for row in body] for at in range(len(names))]


def _delimiter(text: str) -> str:
    """Return the delimiter that occurs most often in the first line."""
    first = text.partition("\n")[0]
    return max(",;\t|", key=first.count)


def _parquet(file: Path) -> tuple[list[str], list[list[Any]]]:
    try:
        from pyarrow import parquet
    except ImportError:
        raise MissingExtra("tabular", "pyarrow", "tabular") from None
    try:
        table = parquet.read_table(file)
        return list(table.column_names), [column.to_pylist() for column in table.columns]
    except (OSError, ValueError) as error:
        raise BadDataset(
            [Finding(file, f"is not a complete Parquet file: {error}; write the file again")]
        ) from None


def _check_names(file: Path, names: Sequence[str], target: str) -> None:
    findings = [
        Finding(file, f"column {at} has no name; write one in the first line", 1)
        for at, name in enumerate(names, 1)
        if not name.strip()
    ]
    twice = sorted({name for name in names if name and names.count(name) > 1})
    findings += [Finding(file, f"two columns are called {name!r}; rename one", 1) for name in twice]
    if target and target not in names:
        findings.append(Finding(file, missing_column(target, names), 1))
    if findings:
        raise BadDataset(findings)


def missing_column(name: str, names: Sequence[str]) -> str:
    """Return the message that no column is called `name`. It suggests the most similar column, if there is one."""
    close = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"the columns are {', '.join(names)}"
    return f"there is no column {name!r}; {hint}"


def _with_type(values: Sequence[Any]) -> tuple[str, list[Value]]:
    present = [value for value in values if not is_absent(value)]
    if not present:
        return MISSING, [None] * len(values)
    try:
        numbers: list[Value] = [None if is_absent(value) else _number(value) for value in values]
        return NUMBER, numbers
    except (ValueError, TypeError, OverflowError):
        return CATEGORY, [None if is_absent(value) else _text(value) for value in values]


def is_absent(value: Any) -> bool:
    if isinstance(value, str):
        return value.strip().lower() in ABSENT
    return value is None or (isinstance(value, float) and math.isnan(value))


def _number(value: Any) -> float:
    """Convert a value to a finite float; raise ValueError if it is not a number."""
    if isinstance(value, bool) or (isinstance(value, str) and _NAME_OF_DIGITS.fullmatch(value.strip())):
        raise ValueError
    number = float(value)
    if not math.isfinite(number):
        raise ValueError
    return number


def _text(value: Any) -> str:
    return str(value).strip() if not isinstance(value, bool) else str(value).lower()


SHOWN = 5


@dataclass(frozen=True, kw_only=True)
class ColumnCount:
    name: str
    kind: str
    missing: int
    different: int
    spread: Spread | None = None  # for numbers
    frequent: Mapping[str, int] | None = None  # for categories: the most frequent values

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def column_counts(table: Table) -> tuple[ColumnCount, ...]:
    return tuple(
        _count_column(table, name, kind) for name, kind in zip(table.columns, table.kinds, strict=True)
    )


def _count_column(table: Table, name: str, kind: str) -> ColumnCount:
    values = table.column(name)
    present = [value for value in values if value is not None]
    numbers = [value for value in present if isinstance(value, float)]
    texts = Counter(value for value in present if isinstance(value, str))
    return ColumnCount(
        name=name,
        kind=kind,
        missing=len(values) - len(present),
        different=len(set(present)),
        spread=_column_spread(numbers) if kind == NUMBER else None,
        frequent=dict(texts.most_common(SHOWN)) if texts else None,
    )


def _column_spread(numbers: list[float]) -> Spread:
    return Spread(least=min(numbers), median=statistics.median(numbers), most=max(numbers))
