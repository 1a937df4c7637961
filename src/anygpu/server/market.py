"""What others rent out, by the catalog: read when it is first asked for, and again when one of its files changed."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from anygpu.plan.catalog import Catalog, Layers, Policy, places_in, terms
from anygpu.plan.catalog.rows import Row
from anygpu.plan.places import Places

Today = Callable[[], date]


@dataclass(frozen=True, slots=True)
class _Read:
    """The rows as they were in files of these ages, and what was made of them for those who have backends there."""

    stamp: object
    rows: list[Row]
    made: dict[frozenset[str], Places] = field(default_factory=dict)


class Market:
    """Clouds in which nobody has configured a backend, as places."""

    def __init__(self, layers: Layers, policy: Policy, stale_days: int, today: Today) -> None:
        self._layers, self._policy, self._stale_days, self._today = layers, policy, stale_days, today
        self._read: _Read | None = None
        self._reading = asyncio.Lock()

    @property
    def policy(self) -> Policy:
        return self._policy

    async def places(self, without: frozenset[str]) -> Places:
        """`without`: clouds whose offers are known from the backends themselves."""
        async with self._reading:
            stamp = self._today(), _stamp(self._layers)
            if self._read is None or self._read.stamp != stamp:
                self._read = _Read(stamp, await asyncio.to_thread(self._layers.rows))
            read = self._read
            if without not in read.made:
                read.made[without] = await asyncio.to_thread(self._made, read.rows, without)
            return read.made[without]

    def _made(self, rows: list[Row], without: frozenset[str]) -> Places:
        known = terms()
        others = [row for row in rows if row.cloud not in without and not known[row.cloud].owned]
        catalog = Catalog(others, today=self._today(), policy=self._policy, stale_days=self._stale_days)
        return places_in(catalog)


def _stamp(layers: Layers) -> tuple[tuple[str, int], ...]:
    files = [layers.edits, *sorted(layers.folder.glob("*.csv"))]
    return tuple((path.name, _changed(path)) for path in files)


def _changed(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
