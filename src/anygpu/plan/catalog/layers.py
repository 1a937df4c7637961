"""The tables that make up an organisation's catalog, one over the other, and the files they are in.

packaged    ours, in the wheel
update.csv  a newer table of the same kind: takes the place of ours for every cloud it names
import-*    price lists that were imported, one file a cloud: they win, row by row
edits       the organisation's own file beside its settings: wins over all, is never written by us
"""

import csv
import io
import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from anygpu.plan.catalog.book import STALE_DAYS, Catalog
from anygpu.plan.catalog.policy import NO_POLICY, Policy
from anygpu.plan.catalog.rows import Key, Row, lines_of, read, written
from anygpu.plan.catalog.terms import terms

PACKAGED = Path(__file__).with_name("prices.csv")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layers:
    """Where the tables are. `folder` is ours to write; `edits` is the user's."""

    folder: Path
    edits: Path

    @property
    def update(self) -> Path:
        return self.folder / "update.csv"

    def imported(self, cloud: str) -> Path:
        return self.folder / f"import-{cloud}.csv"

    def rows(self) -> list[Row]:
        """All layers as one: the last to name an offer decides it."""
        newer = _file(self.update)
        replaced = {row.cloud for row in newer}
        merged = {row.key: row for row in _file(PACKAGED) if row.cloud not in replaced}
        merged.update({row.key: row for row in newer})
        for path in sorted(self.folder.glob("import-*.csv")):
            merged.update({row.key: row for row in _file(path)})
        return _with_services(_edited(merged, _file(self.edits, edits=True)))

    def keep_update(self, rows: Iterable[Row]) -> None:
        _replace(self.update, rows)

    def keep_import(self, cloud: str, rows: Iterable[Row]) -> None:
        _replace(self.imported(cloud), rows)


def load(layers: Layers, *, today: date, policy: Policy = NO_POLICY, stale_days: int = STALE_DAYS) -> Catalog:
    """The catalog of an organisation, ready to be asked."""
    return Catalog(layers.rows(), today=today, policy=policy, stale_days=stale_days)


def _edited(merged: dict[Key, Row], edits: Iterable[Row]) -> list[Row]:
    """An edit without a price takes the offer out; without a region it speaks of all regions there are."""
    for edit in edits:
        for key in [edit.key] if edit.region else _everywhere(merged, edit):
            merged[key] = edit._replace(region=key[2])
    return [row for row in merged.values() if row.price_microusd is not None]


def _everywhere(merged: Iterable[Key], edit: Row) -> list[Key]:
    wanted = edit.cloud, edit.instance_type, edit.spot
    return [key for key in merged if (key[0], key[1], key[3]) == wanted] or [edit.key]


def _with_services(rows: list[Row]) -> list[Row]:
    """Services that rent out another's machines at its prices have its rows too, beside their own."""
    for each in terms().values():
        if each.same_prices_as:
            rows += [row._replace(cloud=each.cloud) for row in rows if row.cloud == each.same_prices_as]
    return rows


def _file(path: Path, *, edits: bool = False) -> list[Row]:
    return read(lines_of(path), path.name, edits=edits) if path.exists() else []


def _replace(path: Path, rows: Iterable[Row]) -> None:
    """Whole or not at all: whoever reads meanwhile finds the old table."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(written(rows))
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(f".{os.getpid()}.part")
    unfinished.write_text(text.getvalue(), encoding="utf-8")
    unfinished.replace(path)
