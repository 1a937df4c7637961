"""Somewhere a job could run, and many of them sorted by kind, so that what holds for a kind is worked out once."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, overload

from anygpu.events.facts import Offer


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Somewhere a job could run. `own`: it is configured, and may be used now."""

    offer: Offer
    boot_s: float = 5.0
    egress_microusd_per_gib: int = 0
    stale_days: int = 0  # how old its price is, when that is too old to be trusted
    own: bool = False
    dedicated: bool = True  # the operating system and the GPU are the job's alone


@dataclass(frozen=True, slots=True)
class Alike:
    """Places that differ in price, name, region and age of the price alone. `place` stands for all of them."""

    place: Place
    numbers: Sequence[int]  # among all places, cheapest first
    prices: "array[float]"  # per hour, in the same order


class Places(Sequence[Place]):
    """Places by their number. Made once and planned on often: making it costs far more than one plan."""

    def __init__(
        self, places: Sequence[Place], alike: Iterable[Alike], *, names: Sequence[str], regions: Sequence[str]
    ) -> None:
        self._places = places
        self.alike = tuple(sorted(alike, key=lambda each: (kind_of(each.place), each.place.offer.name)))
        self.names, self.regions = names, regions

    @classmethod
    def of(cls, places: Iterable[Place]) -> "Places":
        every = tuple(places)
        names, regions, zones, prices = (
            [getter(place) for place in every] for getter in map(attrgetter, _TOLD_APART)
        )
        kinds: dict[tuple[Any, ...], list[int]] = {}
        for number, place in enumerate(every):
            kinds.setdefault(kind_of(place), []).append(number)
        rank = list(zip(prices, names, regions, zones, strict=True))
        ordered = [sorted(numbers, key=rank.__getitem__) for numbers in kinds.values()]
        alike = [
            Alike(every[numbers[0]], numbers, array("d", [prices[n] for n in numbers])) for numbers in ordered
        ]
        return cls(every, alike, names=names, regions=regions)

    def joined(self, more: Sequence[Place]) -> "Places":
        """With a few more of one's own; the many are not sorted again."""
        others, first = Places.of(more), len(self)
        shifted = [
            Alike(each.place, [first + number for number in each.numbers], each.prices)
            for each in others.alike
        ]
        return Places(
            _Joined(self._places, others),
            (*self.alike, *shifted),
            names=[*self.names, *others.names],
            regions=[*self.regions, *others.regions],
        )

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, number: int) -> Place: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[Place]: ...
    def __getitem__(self, number: int | slice) -> Place | Sequence[Place]:
        return self._places[number]

    def __iter__(self) -> Iterator[Place]:
        return iter(self._places)


_TOLD_APART = ("offer.name", "offer.region", "offer.zone", "offer.price_microusd_per_hour")
_KIND = attrgetter(
    "offer.backend",
    "offer.gpu_kind",
    "offer.gpu_count",
    "offer.gpu_memory_gib",
    "offer.cpus",
    "offer.memory_gib",
    "offer.disk_gib",
    "offer.interruptible",
    "offer.paid",
    "offer.containers",
    "offer.refused",
    "offer.billing.step_s",
    "offer.billing.minimum_s",
    "boot_s",
    "egress_microusd_per_gib",
    "own",
    "dedicated",
)


def kind_of(place: Place) -> tuple[Any, ...]:
    """All that decides whether a job fits and how long it takes. Machines without a GPU are known by their name."""
    named = "" if place.offer.gpu_kind else place.offer.name
    return *_KIND(place), named


class _Joined(Sequence[Place]):
    """One after the other."""

    def __init__(self, one: Sequence[Place], other: Sequence[Place]) -> None:
        self._one, self._other = one, other

    def __len__(self) -> int:
        return len(self._one) + len(self._other)

    @overload
    def __getitem__(self, at: int) -> Place: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Place, ...]: ...
    def __getitem__(self, at: int | slice) -> Place | tuple[Place, ...]:
        if isinstance(at, slice):
            return tuple(self[number] for number in range(len(self))[at])
        number = range(len(self))[at]
        return self._one[number] if number < len(self._one) else self._other[number - len(self._one)]
