"""Price lists in the columns of SkyPilot's catalog: InstanceType, AcceleratorName, AcceleratorCount, vCPUs, MemoryGiB,
Price, SpotPrice, Region, and sometimes AvailabilityZone.

Known traps of such lists: rows without an accelerator are hosts; Google's GPUs are priced without their host, which has
a row of its own; some clouds fill the spot column without renting spot; fractions of GPUs.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from anygpu.errors import Problem
from anygpu.plan import gpus
from anygpu.plan.catalog.rows import Key, Row, Wrong, microusd, named, number, refuse, require_columns, table
from anygpu.plan.catalog.terms import terms

COLUMNS = ("InstanceType", "AcceleratorName", "AcceleratorCount", "Price", "Region")
# Google's machines by the GPU they hold; `{}` is the number of GPUs.
HOSTS = {
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
SEVERAL = {("L4", 2): ("g2-standard-24",), ("L4", 4): ("g2-standard-48",), ("L4", 8): ("g2-standard-96",)}
Prices = tuple[int | None, int | None]  # on demand and spot


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """One line that was understood."""

    name: str
    gpu: str
    count: int
    cpus: float
    memory_gib: float
    region: str
    prices: Prices


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What a list gave, and what of it was left out."""

    rows: tuple[Row, ...]
    left_out: Mapping[str, int]  # reason -> lines


def recognised(columns: Sequence[str]) -> bool:
    return all(column in columns for column in COLUMNS)


def read(lines: Iterable[str], name: str, *, cloud: str, source: str, recorded: str) -> Imported:
    """Everything with a whole GPU and a price; zones of a region become the cheapest of them."""
    columns, body = table(lines)
    require_columns(columns, COLUMNS, name)
    understood: list[Listed] = []
    problems: list[Problem] = []
    for line, cells in body:
        try:
            understood.append(_listed(named(columns, cells)))
        except Wrong as wrong:
            problems.append(wrong.problem(name, line))
    refuse(problems)
    return _offers(understood, cloud, source, recorded)


def _listed(cells: Mapping[str, str]) -> Listed:
    region = cells["Region"].strip()
    if not region and not cells["InstanceType"].strip():
        raise Wrong("Region", "", "names neither a machine nor a region")
    return Listed(
        name=cells["InstanceType"].strip(),
        gpu=cells["AcceleratorName"].strip(),
        # A part of a GPU is no mistake of the list; it is left out later.
        count=_whole(number(cells, "AcceleratorCount", most=1_000_000, empty=0)),
        cpus=number(cells, "vCPUs", most=65536, empty=0),
        memory_gib=number(cells, "MemoryGiB", most=1_000_000, empty=0),
        region=region,
        prices=(_price(cells, "Price"), _price(cells, "SpotPrice")),
    )


def _whole(count: float) -> int:
    return int(count) if count == int(count) else 0


def _price(cells: Mapping[str, str], column: str) -> int | None:
    """In these lists 0 and `nan` stand for a price nobody knows; on Google's hosts, for one that is in the GPU's."""
    text = (cells.get(column) or "").strip().lower()
    return None if text in ("", "nan") else 0 if _is_zero(text) else microusd(cells, column)


def _is_zero(text: str) -> bool:
    return not text.strip("0.") and "0" in text


def _offers(listed: Sequence[Listed], cloud: str, source: str, recorded: str) -> Imported:
    hosts = {(each.name, each.region): each for each in listed if each.name and not each.gpu}
    found: list[Row] = []
    left_out: dict[str, int] = {}
    for each in listed:
        machines = _machines(each, hosts)
        if reason := _reason(each) or ("" if machines else "a GPU without its host"):
            left_out[reason] = left_out.get(reason, 0) + 1
            continue
        found += [row for machine in machines for row in _rows(machine, cloud, source, recorded)]
    return Imported(rows=_cheapest(found), left_out=left_out)


def _cheapest(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Of the zones of a region."""
    best: dict[Key, Row] = {}
    for row in rows:
        known = best.setdefault(row.key, row)
        if (row.price_microusd or 0) < (known.price_microusd or 0):
            best[row.key] = row
    return tuple(best.values())


def _reason(each: Listed) -> str:
    """Why a line is no offer of ours."""
    if not each.gpu:
        return "no GPU"
    if not each.count:
        return "a part of a GPU"
    if each.gpu.lower().startswith("tpu"):
        return "a TPU"
    return "" if any(each.prices) else "no price"


def _machines(each: Listed, hosts: Mapping[tuple[str, str], Listed]) -> list[Listed]:
    """The line itself; a GPU that is priced alone, with each host it can be had with."""
    if each.name:
        return [each]
    names = SEVERAL.get((each.gpu, each.count)) or HOSTS.get(each.gpu, ())
    if each.count > 1 and names[:1] == ("n1-standard-8",):
        return []  # several of these need a larger host than this one
    found = [hosts.get((name.format(each.count), each.region)) for name in names]
    return [_together(each, host) for host in found if host is not None]


def _together(gpu: Listed, host: Listed) -> Listed:
    on_demand, spot = (_sum(a, b) for a, b in zip(gpu.prices, host.prices, strict=True))
    name = f"{host.name} + {gpu.gpu}" if host.name.startswith("n1-") else host.name
    return Listed(
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


def _rows(each: Listed, cloud: str, source: str, recorded: str) -> Iterable[Row]:
    on_demand, spot = each.prices
    spec = gpus.spec(each.gpu)
    kind = spec.kind if spec else each.gpu
    shape = (cloud, each.name, kind, each.count, each.cpus, each.memory_gib, each.region)
    if on_demand:
        yield Row(*shape, False, on_demand, source, recorded)
    # A spot price that saves nothing is a missing one.
    if spot and terms()[cloud].spot and (not on_demand or spot < on_demand):
        yield Row(*shape, True, spot, source, recorded)
