"""Load the price catalog from tables that override each other, and turn its offers into candidates."""

import csv
import io
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import overload

from anygpu.files import write_atomic
from anygpu.plan.catalog.discounts import NO_POLICY, CatalogPolicy
from anygpu.plan.catalog.prices import STALE_DAYS, Catalog, CatalogOffer
from anygpu.plan.catalog.tables import PriceRow, RowKey, read_lines, read_table, table_cells
from anygpu.plan.catalog.terms import terms
from anygpu.plan.offers.candidates import OLD_PRICE_DAYS, Candidate, CandidateGroup, CandidateSet

PACKAGED = Path(__file__).with_name("prices.csv")


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogLayers:
    """Paths of the price tables.

    The commands `anygpu catalog update` and `import` write the tables in `folder`; the table `edits` is
    written by the user only.
    """

    folder: Path
    edits: Path

    @property
    def update_path(self) -> Path:
        return self.folder / "update.csv"

    def import_path(self, cloud: str) -> Path:
        return self.folder / f"import-{cloud}.csv"

    def rows(self) -> list[PriceRow]:
        """Return the rows of all tables merged: packaged prices, update, imports, the user's edits.

        A later table overrides an earlier one.
        """
        newer = _read_file(self.update_path)
        replaced = {row.cloud for row in newer}
        merged = {row.key: row for row in _read_file(PACKAGED) if row.cloud not in replaced}
        merged.update({row.key: row for row in newer})
        for path in sorted(self.folder.glob("import-*.csv")):
            merged.update({row.key: row for row in _read_file(path)})
        return _add_services(_apply_edits(merged, _read_file(self.edits, edits=True)))

    def save_update(self, rows: Iterable[PriceRow]) -> None:
        _replace(self.update_path, rows)

    def save_import(self, cloud: str, rows: Iterable[PriceRow]) -> None:
        _replace(self.import_path(cloud), rows)


def load_catalog(
    layers: CatalogLayers, *, today: date, policy: CatalogPolicy = NO_POLICY, stale_days: int = STALE_DAYS
) -> Catalog:
    """Load an organisation's catalog. A price older than `stale_days` counts as out of date."""
    return Catalog(layers.rows(), today=today, policy=policy, stale_days=stale_days)


def _apply_edits(merged: dict[RowKey, PriceRow], edits: Iterable[PriceRow]) -> list[PriceRow]:
    """Return the rows after the user's edits.

    An empty price removes a row; an empty region means all regions.
    """
    for edit in edits:
        for key in [edit.key] if edit.region else _all_regions(merged, edit):
            merged[key] = edit._replace(region=key[2])
    return [row for row in merged.values() if row.price_microusd is not None]


def _all_regions(merged: Iterable[RowKey], edit: PriceRow) -> list[RowKey]:
    edited = edit.cloud, edit.instance_type, edit.spot
    return [key for key in merged if (key[0], key[1], key[3]) == edited] or [edit.key]


def _add_services(rows: list[PriceRow]) -> list[PriceRow]:
    """Add rows for services that rent the machines of another cloud at its prices."""
    for each in terms().values():
        if each.same_prices_as:
            rows += [row._replace(cloud=each.cloud) for row in rows if row.cloud == each.same_prices_as]
    return rows


def _read_file(path: Path, *, edits: bool = False) -> list[PriceRow]:
    return read_table(read_lines(path), path.name, edits=edits) if path.exists() else []


def _replace(path: Path, rows: Iterable[PriceRow]) -> None:
    """Replace a price table atomically."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(table_cells(rows))
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, text.getvalue().encode(), mode=0o666)  # the umask applies


NO_BACKENDS: Mapping[str, str] = {}


def candidates_in(
    catalog: Catalog, *, kinds: Collection[str], backends: Mapping[str, str] = NO_BACKENDS
) -> CandidateSet:
    """Return all offers of a catalog as candidates.

    `kinds` are the kinds of backends that anygpu has; clouds have the same names. `backends` has the name of
    the configured backend by cloud.
    """

    def place(row: int) -> Candidate:
        return _make_candidate(catalog.offer_at(row), kinds, backends)

    groups = (
        _make_group(catalog, place(rows[0]), rows)
        for of_shape in catalog.rows_by_shape()
        for rows in _split_by_age(catalog, of_shape)
    )
    return CandidateSet.from_groups(_CatalogCandidates(len(catalog), place), groups)


def _split_by_age(catalog: Catalog, rows: Sequence[int]) -> list[list[int]]:
    """Split rows into those with an old price and the others, because they are ranked differently."""
    parts: dict[bool, list[int]] = {}
    for row in rows:
        parts.setdefault(catalog.age_days_at(row) >= OLD_PRICE_DAYS, []).append(row)
    return list(parts.values())


def _make_group(catalog: Catalog, place: Candidate, rows: Sequence[int]) -> CandidateGroup:
    regions, count = tuple(map(catalog.region_at, rows)), len(rows)
    wheres = regions, ("",) * count, (place.offer.name,) * count
    return CandidateGroup(place, tuple(rows), array("d", map(catalog.price_at, rows)), wheres)


def _make_candidate(found: CatalogOffer, kinds: Collection[str], backends: Mapping[str, str]) -> Candidate:
    return Candidate(
        offer=found.to_offer(backends.get(found.cloud, "")),
        boot_s=found.setup_s,
        egress_microusd_per_gib=found.egress_microusd_per_gib or 0,
        stale_days=found.age_days if found.stale else 0,
        price_date=found.recorded if found.stale else "",
        configured=found.cloud in backends,
        has_backend=found.cloud in kinds,
        dedicated=found.dedicated,
        credit_microusd=found.credit_microusd,
    )


class _CatalogCandidates(Sequence[Candidate]):
    """The candidates of a catalog. Each `Candidate` object is created when it is accessed."""

    def __init__(self, count: int, place: Callable[[int], Candidate]) -> None:
        self._rows, self._candidate = range(count), place

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, position: int) -> Candidate: ...
    @overload
    def __getitem__(self, position: slice) -> tuple[Candidate, ...]: ...
    def __getitem__(self, position: int | slice) -> Candidate | tuple[Candidate, ...]:
        if isinstance(position, slice):
            return tuple(map(self._candidate, self._rows[position]))
        return self._candidate(self._rows[position])

    def __iter__(self) -> Iterator[Candidate]:
        return map(self._candidate, self._rows)
