"""Rows and catalogs for these tests."""

from collections.abc import Iterable
from datetime import date

from anygpu.plan.catalog import NO_POLICY, Catalog, CatalogPolicy, PriceRow

TODAY = date(2026, 11, 16)
HEADING = "cloud,instance_type,gpu,gpu_count,cpus,memory_gib,regions,market,price,source,recorded\n"


def row(
    name: str = "one",
    price: int | None = 1_000_000,
    *,
    cloud: str = "gcp",
    gpu: str = "A100-40GB",
    count: int = 1,
    cpus: float = 8,
    memory_gib: float = 64,
    region: str = "us-1",
    spot: bool = False,
    recorded: str = "2026-11-01",
) -> PriceRow:
    return PriceRow(cloud, name, gpu, count, cpus, memory_gib, region, spot, price, "a list", recorded)


def catalog(*rows: PriceRow, policy: CatalogPolicy = NO_POLICY) -> Catalog:
    return Catalog(rows, today=TODAY, policy=policy)


def lines(*rows: str) -> list[str]:
    return [HEADING, *(f"{each}\n" for each in rows)]


def names(found: Iterable[object]) -> list[str]:
    return [each.name for each in found]  # type: ignore[attr-defined]
