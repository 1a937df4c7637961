"""What is in a table, counted column by column."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from anygpu.trainers.data.statistics import Spread
from anygpu.trainers.data.tables import NUMBER, Table

SHOWN = 5


@dataclass(frozen=True, kw_only=True)
class ColumnCount:
    name: str
    kind: str
    missing: int
    different: int
    spread: Spread | None = None  # of numbers
    frequent: Mapping[str, int] | None = None  # of categories: the most frequent ones

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def column_counts(table: Table) -> tuple[ColumnCount, ...]:
    return tuple(_counted(table, name, kind) for name, kind in zip(table.columns, table.kinds, strict=True))


def _counted(table: Table, name: str, kind: str) -> ColumnCount:
    values = table.column(name)
    known = [value for value in values if value is not None]
    numbers = [value for value in known if isinstance(value, float)]
    texts = Counter(value for value in known if isinstance(value, str))
    return ColumnCount(
        name=name,
        kind=kind,
        missing=len(values) - len(known),
        different=len(set(known)),
        spread=_spread(numbers) if kind == NUMBER else None,
        frequent=dict(texts.most_common(SHOWN)) if texts else None,
    )


def _spread(numbers: list[float]) -> Spread:
    return Spread(least=min(numbers), median=statistics.median(numbers), most=max(numbers))
