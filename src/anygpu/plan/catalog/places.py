"""A whole catalog as places to plan on: the kinds are its shapes, and a place is made only when it is looked at."""

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import overload

from anygpu.plan.catalog.book import Catalog
from anygpu.plan.catalog.candidates import Candidate
from anygpu.plan.places import Alike, Place, Places

NOTHING_CONFIGURED: Mapping[str, str] = {}


def places_in(catalog: Catalog, *, backends: Mapping[str, str] = NOTHING_CONFIGURED) -> Places:
    """`backends`: the configured backend that rents in a cloud, where there is one. Build it once, plan often."""

    def place(row: int) -> Place:
        return _place(catalog.candidate(row), backends)

    kinds = (_alike(catalog, place(rows[0]), rows) for rows in catalog.rows_of_each_shape())
    return Places.alike(_Rows(len(catalog), place), kinds)


def _alike(catalog: Catalog, place: Place, rows: Sequence[int]) -> Alike:
    regions, count = tuple(map(catalog.region, rows)), len(rows)
    wheres = regions, ("",) * count, (place.offer.name,) * count
    return Alike(place, tuple(rows), array("d", map(catalog.price, rows)), wheres)


def _place(found: Candidate, backends: Mapping[str, str]) -> Place:
    return Place(
        offer=found.offer(backends.get(found.cloud, "")),
        boot_s=found.setup_s,
        egress_microusd_per_gib=found.egress_microusd_per_gib or 0,
        stale_days=found.age_days if found.stale else 0,
        own=found.cloud in backends,
        dedicated=found.dedicated,
        credit_microusd=found.credit_microusd,
    )


class _Rows(Sequence[Place]):
    """The places of a catalog's rows."""

    def __init__(self, count: int, place: Callable[[int], Place]) -> None:
        self._numbers, self._place = range(count), place

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, at: int) -> Place: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Place, ...]: ...
    def __getitem__(self, at: int | slice) -> Place | tuple[Place, ...]:
        if isinstance(at, slice):
            return tuple(map(self._place, self._numbers[at]))
        return self._place(self._numbers[at])

    def __iter__(self) -> Iterator[Place]:
        return map(self._place, self._numbers)
