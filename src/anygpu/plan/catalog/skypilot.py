"""Import price lists that have the columns of SkyPilot's catalog.

The columns are InstanceType, AcceleratorName, AcceleratorCount, vCPUs, MemoryGiB, Price, SpotPrice,
Region, and sometimes AvailabilityZone.

Peculiarities of such lists:
- A row without an accelerator is a machine without a GPU.
- Google prices a GPU without the machine that holds it (its host); the host has a row of its own.
- Some clouds have prices in the spot column although they rent no spot machines.
- Some rows are fractions of a GPU.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from anygpu.errors import Problem
from anygpu.plan.catalog.tables import (
    InvalidCell,
    PriceRow,
    RowKey,
    cells_by_column,
    parse_csv,
    parse_number,
    parse_price,
    raise_problems,
    require_columns,
)
from anygpu.plan.catalog.terms import terms
from anygpu.plan.hardware import gpus

COLUMNS = ("InstanceType", "AcceleratorName", "AcceleratorCount", "Price", "Region")
# Google's machine types by GPU model; `{}` is the number of GPUs.
GCP_HOSTS = {
    "A100": ("a2-highgpu-{}g",),
    "A100-80GB": ("a2-ultragpu-{}g",),
    "H100": ("a3-highgpu-{}g",),
    "H100-MEGA": ("a3-megagpu-{}g",),
    "H200": ("a3-ultragpu-{}g",),
    "B200": ("a4-highgpu-{}g",),
    "L4": ("g2-standard-4", "g2-standard-8", "g2-standard-16", "g2-standard-32"),
    "T4": ("n1-standard-8",),
    "V100": ("n1-standard-8",),
    "P100": ("n1-standard-8",),
}
MULTI_GPU_HOSTS = {
    ("L4", 2): ("g2-standard-24",),
    ("L4", 4): ("g2-standard-48",),
    ("L4", 8): ("g2-standard-96",),
}
Prices = tuple[int | None, int | None]  # on demand and spot


@dataclass(frozen=True, slots=True, kw_only=True)
class SkyPilotRow:
    """One parsed line of a price list."""

    name: str
    gpu: str
    count: int
    cpus: float
    memory_gib: float
    region: str
    prices: Prices


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedPrices:
    """Imported rows, and the number of skipped lines by reason."""

    rows: tuple[PriceRow, ...]
    skipped: Mapping[str, int]  # reason -> lines


def is_skypilot_table(columns: Sequence[str]) -> bool:
    return all(column in columns for column in COLUMNS)


def read_skypilot(
    lines: Iterable[str], name: str, *, cloud: str, source: str, recorded: str
) -> ImportedPrices:
    """Import all lines that have at least one whole GPU and a price.

    Of a region, only the cheapest zone is used.
    """
    columns, body = parse_csv(lines)
    require_columns(columns, COLUMNS, name)
    parsed_rows: list[SkyPilotRow] = []
    problems: list[Problem] = []
    for line, cells in body:
        try:
            parsed_rows.append(_parse_row(cells_by_column(columns, cells)))
        except InvalidCell as wrong:
            problems.append(wrong.problem(name, line))
    raise_problems(problems)
    return _convert(parsed_rows, cloud, source, recorded)


def _parse_row(cells: Mapping[str, str]) -> SkyPilotRow:
    region = cells["Region"].strip()
    if not region and not cells["InstanceType"].strip():
        raise InvalidCell("Region", "", "is empty, and so is InstanceType; fill in at least one of them")
    return SkyPilotRow(
        name=cells["InstanceType"].strip(),
        gpu=cells["AcceleratorName"].strip(),
        # A fraction of a GPU is no error in the list; such lines are skipped later.
        count=_whole(parse_number(cells, "AcceleratorCount", most=1_000_000, empty=0)),
        cpus=parse_number(cells, "vCPUs", most=65536, empty=0),
        memory_gib=parse_number(cells, "MemoryGiB", most=1_000_000, empty=0),
        region=region,
        prices=(_price(cells, "Price"), _price(cells, "SpotPrice")),
    )


def _whole(count: float) -> int:
    return int(count) if count == int(count) else 0


def _price(cells: Mapping[str, str], column: str) -> int | None:
    """Return a price per hour in micro-dollars; None for an empty cell or `nan`.

    A price of 0 is allowed, because Google includes the price of some hosts in the price of their GPU.
    """
    text = (cells.get(column) or "").strip().lower()
    return None if text in ("", "nan") else 0 if _is_zero(text) else parse_price(cells, column)


def _is_zero(text: str) -> bool:
    return not text.strip("0.") and "0" in text


def _convert(listed: Sequence[SkyPilotRow], cloud: str, source: str, recorded: str) -> ImportedPrices:
    hosts = {(each.name, each.region): each for each in listed if each.name and not each.gpu}
    found: list[PriceRow] = []
    skipped: dict[str, int] = {}
    for each in listed:
        machines = _machines(each, hosts)
        if reason := _skip_reason(each) or ("" if machines else "a GPU without its host"):
            skipped[reason] = skipped.get(reason, 0) + 1
            continue
        found += [row for machine in machines for row in _rows(machine, cloud, source, recorded)]
    return ImportedPrices(rows=_cheapest(found), skipped=skipped)


def _cheapest(rows: Iterable[PriceRow]) -> tuple[PriceRow, ...]:
    """Return the cheapest row for each machine type, region and market (on-demand or spot), whatever its zone."""
    best: dict[RowKey, PriceRow] = {}
    for row in rows:
        known = best.setdefault(row.key, row)
        if (row.price_microusd or 0) < (known.price_microusd or 0):
            best[row.key] = row
    return tuple(best.values())


def _skip_reason(each: SkyPilotRow) -> str:
    """Return why a line is skipped; empty if it is imported."""
    if not each.gpu:
        return "no GPU"
    if not each.count:
        return "a part of a GPU"
    if each.gpu.lower().startswith("tpu"):
        return "a TPU"
    return "" if any(each.prices) else "no price"


def _machines(each: SkyPilotRow, hosts: Mapping[tuple[str, str], SkyPilotRow]) -> list[SkyPilotRow]:
    """Return the machines that a line describes.

    A GPU that is priced without its host is combined with each host that can hold it.
    """
    if each.name:
        return [each]
    names = MULTI_GPU_HOSTS.get((each.gpu, each.count)) or GCP_HOSTS.get(each.gpu, ())
    if each.count > 1 and names[:1] == ("n1-standard-8",):
        return []  # several of these GPUs need a larger host
    found = [hosts.get((name.format(each.count), each.region)) for name in names]
    return [_combine(each, host) for host in found if host is not None]


def _combine(gpu: SkyPilotRow, host: SkyPilotRow) -> SkyPilotRow:
    on_demand, spot = (_sum(a, b) for a, b in zip(gpu.prices, host.prices, strict=True))
    name = f"{host.name} + {gpu.gpu}" if host.name.startswith("n1-") else host.name
    return SkyPilotRow(
        name=name,
        gpu=gpu.gpu,
        count=gpu.count,
        cpus=host.cpus,
        memory_gib=host.memory_gib,
        region=gpu.region,
        prices=(on_demand, spot),
    )


def _sum(gpu: int | None, host: int | None) -> int | None:
    return None if not gpu or host is None else gpu + host


def _rows(each: SkyPilotRow, cloud: str, source: str, recorded: str) -> Iterable[PriceRow]:
    on_demand, spot = each.prices
    spec = gpus.spec(each.gpu)
    kind = spec.kind if spec else each.gpu
    shape = (cloud, each.name, kind, each.count, each.cpus, each.memory_gib, each.region)
    if on_demand:
        yield PriceRow(*shape, False, on_demand, source, recorded)
    # A spot price that is not below the on-demand price means that there is no spot.
    if spot and terms()[cloud].spot and (not on_demand or spot < on_demand):
        yield PriceRow(*shape, True, spot, source, recorded)
