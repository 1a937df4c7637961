"""Read and write price tables (CSV). A table with an invalid row is rejected as a whole."""

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import NamedTuple

from anygpu.errors import InvalidSpec, Problem
from anygpu.events.offers import MICROUSD
from anygpu.plan.catalog.terms import terms
from anygpu.plan.hardware import gpus

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
MAX_PROBLEMS = 20
MAX_PRICE_USD = 10_000.0
RowKey = tuple[str, str, str, bool]


class PriceRow(NamedTuple):
    """The list price of a machine type in one region, either on demand or as spot."""

    cloud: str
    instance_type: str
    gpu: str
    gpu_count: int
    cpus: float
    memory_gib: float
    region: str
    spot: bool
    price_microusd: int | None  # per hour; None in an edit that removes the offer
    source: str
    recorded: str  # the day the price was read, YYYY-MM-DD

    @property
    def key(self) -> RowKey:
        return self.cloud, self.instance_type, self.region, self.spot


def read_table(lines: Iterable[str], name: str, *, edits: bool = False) -> list[PriceRow]:
    """Parse a price table. With `edits`, a row may have an empty price, which removes the offer."""
    columns, body = parse_csv(lines)
    require_columns(columns, COLUMNS, name)
    found: list[PriceRow] = []
    problems: list[Problem] = []
    for line, cells in body:
        try:
            found += _parse_row(cells_by_column(columns, cells), edits=edits)
        except InvalidCell as wrong:
            problems.append(wrong.problem(name, line))
    raise_problems(problems)
    return found


def read_lines(path: Path) -> list[str]:
    """Read the lines of a table; raise InvalidSpec if the file is not UTF-8 text."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidSpec(
            [
                Problem(
                    "",
                    "",
                    "is not a text in UTF-8; save the file with this encoding",
                    source=path.name,
                    line=1,
                )
            ]
        ) from None
    return text.replace("\0", "").splitlines(keepends=True)


def table_cells(rows: Iterable[PriceRow]) -> Iterator[list[str]]:
    """Yield the cells of each line of a table, header first. Regions with the same price share a line."""
    yield list(COLUMNS)
    by_price: dict[PriceRow, list[str]] = {}
    for row in rows:
        by_price.setdefault(row._replace(region=""), []).append(row.region)
    for row, regions in by_price.items():
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


def parse_csv(lines: Iterable[str]) -> tuple[list[str], Iterator[tuple[int, list[str]]]]:
    """Return the column names, and an iterator over the line number and cells of each further line.

    Lines that begin with # are comments.
    """
    # A comment becomes an empty line, so that later line numbers stay correct.
    reader = csv.reader("\n" if line.startswith("#") else line for line in lines)
    columns = next((cells for cells in reader if cells), [])
    return columns, ((reader.line_num, cells) for cells in reader if cells)


def cells_by_column(columns: Sequence[str], cells: Sequence[str]) -> dict[str, str]:
    if len(cells) != len(columns):
        message = f"has {len(cells)} cells, not {len(columns)}; put quotes around texts that contain a comma"
        raise InvalidCell("", "", message)
    return dict(zip(columns, cells, strict=True))


class InvalidCell(Exception):
    """A cell with an invalid value."""

    def __init__(self, column: str, value: object, message: str) -> None:
        super().__init__(message)
        self.column, self.value, self.message = column, value, message

    def problem(self, source: str, line: int) -> Problem:
        return Problem(self.column, self.value, self.message, source=source, line=line)


def parse_number(cells: Mapping[str, str], column: str, *, most: float, empty: float | None = None) -> float:
    text = (cells.get(column) or "").strip()
    if not text and empty is not None:
        return empty
    try:
        value = float(text)
    except ValueError:
        raise InvalidCell(column, text, f"{text!r} is not a number; write one such as 1.25") from None
    if not 0 <= value <= most:
        raise InvalidCell(column, text, f"{text} is out of range; write a number from 0 to {most:g}")
    return value


def parse_price(cells: Mapping[str, str], column: str) -> int | None:
    """Return a price per hour in micro-dollars; None for an empty cell.

    A price of 0 is rejected: in price lists it means that the price is missing.
    """
    if not (cells.get(column) or "").strip():
        return None
    price = round(parse_number(cells, column, most=MAX_PRICE_USD) * MICROUSD)
    if price <= 0:
        raise InvalidCell(
            column, cells[column], "must be more than 0; leave the cell empty if the price is not known"
        )
    return price


def require_columns(found: Sequence[str], required: Iterable[str], name: str) -> None:
    missing = [column for column in required if column not in found]
    if missing:
        message = (
            f"the first line does not name the column {', '.join(repr(column) for column in missing)}; add it"
        )
        has = f"the first line has: {', '.join(found)}" if found else "the file is empty"
        raise InvalidSpec([Problem("columns", "", message, has, source=name, line=1)])


def raise_problems(problems: Sequence[Problem]) -> None:
    """Raise InvalidSpec with the first `MAX_PROBLEMS` problems; do nothing if there are none."""
    if not problems:
        return
    listed = list(problems[:MAX_PROBLEMS])
    if len(problems) > MAX_PROBLEMS:
        listed.append(
            Problem(
                "", "", f"and {len(problems) - MAX_PROBLEMS} more problems; nothing of the table was used"
            )
        )
    raise InvalidSpec(listed)


def _parse_row(cells: Mapping[str, str], *, edits: bool) -> Iterator[PriceRow]:
    price = parse_price(cells, "price")
    if price is None and not edits:
        raise InvalidCell("price", "", "is empty; give a price in dollars per hour, or remove the line")
    market = cells["market"].strip()
    if market not in MARKETS:
        raise InvalidCell("market", market, f"{market!r} is not a market; write on-demand or spot")
    regions = [region.strip() for region in cells["regions"].split(";")]
    shape = (
        _parse_cloud(cells),
        _required_text(cells, "instance_type"),
        gpus.canonical_name(cells["gpu"]),
        _parse_gpu_count(cells),
    )
    size = (
        parse_number(cells, "cpus", most=4096, empty=0),
        parse_number(cells, "memory_gib", most=65536, empty=0),
    )
    proof = _required_text(cells, "source"), _parse_date(cells)
    yield from (PriceRow(*shape, *size, region, market == "spot", price, *proof) for region in regions)


def _parse_cloud(cells: Mapping[str, str]) -> str:
    cloud = cells["cloud"].strip().lower()
    if cloud not in terms():
        raise InvalidCell(
            "cloud", cloud, f"{cloud!r} is not a known cloud; known clouds: {', '.join(terms())}"
        )
    return cloud


def _parse_gpu_count(cells: Mapping[str, str]) -> int:
    count = parse_number(cells, "gpu_count", most=1024, empty=0)
    if count != int(count):
        raise InvalidCell(
            "gpu_count", cells["gpu_count"], "is not a whole number of GPUs; correct or remove the line"
        )
    if bool(count) != bool(cells["gpu"].strip()):
        raise InvalidCell(
            "gpu", cells["gpu"], "and gpu_count belong together; fill in both, or leave both empty"
        )
    return int(count)


def _required_text(cells: Mapping[str, str], column: str) -> str:
    if not (text := cells[column].strip()):
        raise InvalidCell(column, "", "is empty; fill it in, or remove the line")
    return text


def _parse_date(cells: Mapping[str, str]) -> str:
    text = cells["recorded"].strip()
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise InvalidCell("recorded", text, f"{text!r} is not a date; write it as 2026-08-22") from None
