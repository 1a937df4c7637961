"""Priced rows, and the tables they are read from. A table is taken whole or not at all."""

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import NamedTuple

from anygpu.errors import InvalidSpec, Problem
from anygpu.events.facts import MICROUSD
from anygpu.plan import gpus
from anygpu.plan.catalog.terms import terms

COLUMNS = (
    "cloud",
    "instance_type",
    "gpu",
    "gpu_count",
    "cpus",
    "memory_gib",
    "regions",
    "market",
    "price",
    "source",
    "recorded",
)
MARKETS = ("on-demand", "spot")
MOST_PROBLEMS = 20
DEAREST_USD = 10_000.0
Key = tuple[str, str, str, bool]


class Row(NamedTuple):
    """One machine in one region in one market, and its list price."""

    cloud: str
    instance_type: str
    gpu: str
    gpu_count: int
    cpus: float
    memory_gib: float
    region: str
    spot: bool
    price_microusd: int | None  # per hour; None in the organisation's own edits: not for us
    source: str
    recorded: str  # the day the price was read, YYYY-MM-DD

    @property
    def key(self) -> Key:
        return self.cloud, self.instance_type, self.region, self.spot


def read(lines: Iterable[str], name: str, *, edits: bool = False) -> list[Row]:
    """The rows of a table in our own columns. In a table of edits an empty price takes the offer out."""
    columns, body = table(lines)
    require_columns(columns, COLUMNS, name)
    found: list[Row] = []
    problems: list[Problem] = []
    for line, cells in body:
        try:
            found += _rows(named(columns, cells), edits=edits)
        except Wrong as wrong:
            problems.append(wrong.problem(name, line))
    refuse(problems)
    return found


def lines_of(path: Path) -> list[str]:
    """The lines of a file that should be a table; what is no text is refused as one."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidSpec([Problem("", "", "is not a text in UTF-8", source=path.name, line=1)]) from None
    return text.replace("\0", "").splitlines(keepends=True)


def written(rows: Iterable[Row]) -> Iterator[list[str]]:
    """Lines of cells in our own columns, headed; regions with the same price share a line."""
    yield list(COLUMNS)
    together: dict[Row, list[str]] = {}
    for row in rows:
        together.setdefault(row._replace(region=""), []).append(row.region)
    for row, regions in together.items():
        price = (
            ""
            if row.price_microusd is None
            else f"{row.price_microusd / MICROUSD:.6f}".rstrip("0").rstrip(".")
        )
        shape = [
            row.cloud,
            row.instance_type,
            row.gpu,
            str(row.gpu_count),
            f"{row.cpus:g}",
            f"{row.memory_gib:g}",
        ]
        yield [*shape, ";".join(sorted(regions)), MARKETS[row.spot], price, row.source, row.recorded]


def table(lines: Iterable[str]) -> tuple[list[str], Iterator[tuple[int, list[str]]]]:
    """The names of the columns, and each further line's number and cells. Lines that begin with # are comments."""
    # A comment becomes an empty line, so that the numbers of the lines after it stay true.
    reader = csv.reader("\n" if line.startswith("#") else line for line in lines)
    columns = next((cells for cells in reader if cells), [])
    return columns, ((reader.line_num, cells) for cells in reader if cells)


def named(columns: Sequence[str], cells: Sequence[str]) -> dict[str, str]:
    if len(cells) != len(columns):
        message = f"has {len(cells)} cells, not {len(columns)}; put quotes around a text with a comma"
        raise Wrong("", "", message)
    return dict(zip(columns, cells, strict=True))


class Wrong(Exception):
    """One cell that cannot be right."""

    def __init__(self, column: str, value: object, message: str) -> None:
        super().__init__(message)
        self.column, self.value, self.message = column, value, message

    def problem(self, source: str, line: int) -> Problem:
        return Problem(self.column, self.value, self.message, source=source, line=line)


def number(cells: Mapping[str, str], column: str, *, most: float, empty: float | None = None) -> float:
    text = (cells.get(column) or "").strip()
    if not text and empty is not None:
        return empty
    try:
        value = float(text)
    except ValueError:
        raise Wrong(column, text, f"{text!r} is not a number") from None
    if not 0 <= value <= most:
        raise Wrong(column, text, f"{text} is not between 0 and {most:g}")
    return value


def microusd(cells: Mapping[str, str], column: str) -> int | None:
    """A price an hour; None where the cell is empty. Nothing is free: a zero is a hole in somebody's list."""
    if not (cells.get(column) or "").strip():
        return None
    price = round(number(cells, column, most=DEAREST_USD) * MICROUSD)
    if price <= 0:
        raise Wrong(column, cells[column], "is free; leave a price that is not known empty")
    return price


def require_columns(found: Sequence[str], wanted: Iterable[str], name: str) -> None:
    missing = [column for column in wanted if column not in found]
    if missing:
        message = f"there is no column {', '.join(repr(column) for column in missing)}"
        has = f"the first line has: {', '.join(found)}" if found else "the file is empty"
        raise InvalidSpec([Problem("columns", "", message, has, source=name, line=1)])


def refuse(problems: Sequence[Problem]) -> None:
    """Nothing of a table with a mistake is taken; the first of them are named."""
    if not problems:
        return
    named = list(problems[:MOST_PROBLEMS])
    if len(problems) > MOST_PROBLEMS:
        named.append(Problem("", "", f"and {len(problems) - MOST_PROBLEMS} more; nothing was taken"))
    raise InvalidSpec(named)


def _rows(cells: Mapping[str, str], *, edits: bool) -> Iterator[Row]:
    price = microusd(cells, "price")
    if price is None and not edits:
        raise Wrong("price", "", "is empty; leave out what has no price")
    market = cells["market"].strip()
    if market not in MARKETS:
        raise Wrong("market", market, f"{market!r} is neither on-demand nor spot")
    regions = [region.strip() for region in cells["regions"].split(";")]
    shape = (_cloud(cells), _text(cells, "instance_type"), gpus.canonical(cells["gpu"]), _count(cells))
    size = number(cells, "cpus", most=4096, empty=0), number(cells, "memory_gib", most=65536, empty=0)
    proof = _text(cells, "source"), _day(cells)
    yield from (Row(*shape, *size, region, market == "spot", price, *proof) for region in regions)


def _cloud(cells: Mapping[str, str]) -> str:
    cloud = cells["cloud"].strip().lower()
    if cloud not in terms():
        raise Wrong("cloud", cloud, f"{cloud!r} is none of {', '.join(terms())}")
    return cloud


def _count(cells: Mapping[str, str]) -> int:
    count = number(cells, "gpu_count", most=1024, empty=0)
    if count != int(count):
        raise Wrong("gpu_count", cells["gpu_count"], "is a part of a GPU; only whole GPUs are offered")
    if bool(count) != bool(cells["gpu"].strip()):
        raise Wrong("gpu", cells["gpu"], "does not fit gpu_count: say both, or neither")
    return int(count)


def _text(cells: Mapping[str, str], column: str) -> str:
    if not (text := cells[column].strip()):
        raise Wrong(column, "", "is empty")
    return text


def _day(cells: Mapping[str, str]) -> str:
    text = cells["recorded"].strip()
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise Wrong("recorded", text, f"{text!r} is not a day like 2026-08-22") from None
