"""Somewhere a job could run, and many of them sorted by kind, so that what holds for a kind is worked out once."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple, overload

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
    credit_microusd: int = 0  # what the organisation has left to spend there before it costs money


class Where(NamedTuple):
    """What a job may ask for beside a kind of place."""

    region: str
    zone: str
    name: str


@dataclass(frozen=True, slots=True)
class Alike:
    """Places that differ in price, whereabouts and age of the price alone. `place` stands for all of them."""

    place: Place
    numbers: Sequence[int]  # among all places, cheapest first
    prices: "array[float]"  # per hour, in the same order
    wheres: tuple[Sequence[str], ...]  # their regions, zones and names, each in the same order


@dataclass(frozen=True, slots=True)
class Family:
    """Kinds that differ in CPUs, memory and disk alone: a run takes as long on all of them."""

    whole: Alike  # of all its kinds, for whom their size makes no difference
    kinds: Sequence[Alike]

    @property
    def place(self) -> Place:
        return self.whole.place


class Places(Sequence[Place]):
    """Places by their number. Made once and planned on often: making it costs far more than one plan."""

    def __init__(self, places: Sequence[Place], families: Iterable[tuple[Any, Family]]) -> None:
        self._places = places
        self._families = sorted(families, key=itemgetter(0))

    @property
    def families(self) -> Iterator[Family]:
        """In an order that does not depend on how the places came."""
        return (family for _, family in self._families)

    @classmethod
    def of(cls, places: Iterable[Place]) -> "Places":
        every = tuple(places)
        kinds: dict[tuple[Any, ...], list[int]] = {}
        for number, place in enumerate(every):
            kinds.setdefault(kind_of(place), []).append(number)
        rank = list(map(_TOLD_APART, every))
        ordered = [sorted(numbers, key=rank.__getitem__) for numbers in kinds.values()]
        return cls.alike(every, (_alike(every, numbers) for numbers in ordered))

    @classmethod
    def alike(cls, places: Sequence[Place], kinds: Iterable[Alike]) -> "Places":
        """Of places that are sorted by kind already."""
        families: dict[tuple[Any, ...], list[Alike]] = {}
        for kind in sorted(kinds, key=lambda each: (kind_of(each.place), each.place.offer.name)):
            families.setdefault(family_of(kind.place), []).append(kind)
        return cls(places, [(key, Family(_together(kinds), kinds)) for key, kinds in families.items()])

    def joined(self, more: Sequence[Place]) -> "Places":
        """With a few more of one's own; the many are not sorted again."""
        others, first = Places.of(more), len(self)
        shifted = [(key, _shifted(family, first)) for key, family in others._families]
        return Places(_Joined(self._places, others), [*self._families, *shifted])

    @property
    def kinds(self) -> int:
        return sum(len(family.kinds) for _, family in self._families)

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


_TOLD_APART = attrgetter("offer.price_microusd_per_hour", "offer.name", "offer.region", "offer.zone")
_SIZE = attrgetter("offer.cpus", "offer.memory_gib", "offer.disk_gib")
_FAMILY = attrgetter(
    "offer.backend",
    "offer.gpu_kind",
    "offer.gpu_count",
    "offer.gpu_memory_gib",
    "offer.interruptible",
    "offer.paid",
    "offer.containers",
    "offer.refused",
    "offer.billing.step_s",
    "offer.billing.minimum_s",
    "offer.longest_s",
    "offer.driver",
    "boot_s",
    "egress_microusd_per_gib",
    "own",
    "dedicated",
    "credit_microusd",
)


def family_of(place: Place) -> tuple[Any, ...]:
    """All that decides how long a job takes there. Machines without a GPU are known by their name."""
    return *_FAMILY(place), "" if place.offer.gpu_kind else place.offer.name


def kind_of(place: Place) -> tuple[Any, ...]:
    """All that decides whether a job fits and how long it takes."""
    return *family_of(place), *_SIZE(place)


def where(offer: Offer) -> Where:
    return Where(offer.region, offer.zone, offer.name)


def _alike(places: Sequence[Place], numbers: Sequence[int]) -> Alike:
    prices = array("d", [places[number].offer.price_microusd_per_hour for number in numbers])
    wheres = zip(*(where(places[number].offer) for number in numbers), strict=True)
    return Alike(places[numbers[0]], numbers, prices, tuple(wheres))


def _together(kinds: Sequence[Alike]) -> Alike:
    """Kinds as one, cheapest first; of the same price the kind that comes first."""
    if len(kinds) == 1:
        return kinds[0]
    every = [each for kind in kinds for each in zip(kind.prices, kind.numbers, *kind.wheres, strict=True)]
    prices, numbers, *wheres = zip(*sorted(every, key=itemgetter(0)), strict=True)
    return Alike(kinds[0].place, numbers, array("d", prices), tuple(wheres))


def _shifted(family: Family, first: int) -> Family:
    """The same, numbered from `first`."""
    whole, *kinds = (
        replace(each, numbers=[first + number for number in each.numbers])
        for each in (family.whole, *family.kinds)
    )
    return Family(whole, kinds)


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
