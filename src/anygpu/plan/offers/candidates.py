"""Somewhere a job could run, and many of them sorted by kind, so that what holds for a kind is worked out once."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple, overload

from anygpu.events.offers import Offer


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """Somewhere a job could run. `own`: it is configured, and may be used now."""

    offer: Offer
    boot_s: float = 5.0
    egress_microusd_per_gib: int = 0
    stale_days: int = 0  # how old its price is, when that is too old to be trusted
    configured: bool = False
    dedicated: bool = True  # the operating system and the GPU are the job's alone
    credit_microusd: int = 0  # what the organisation has left to spend there before it costs money


class Location(NamedTuple):
    """What a job may ask for beside a kind of place."""

    region: str
    zone: str
    name: str


@dataclass(frozen=True, slots=True)
class CandidateGroup:
    """Places that differ in price, whereabouts and age of the price alone. `place` stands for all of them."""

    representative: Candidate
    indices: Sequence[int]  # among all places, cheapest first
    prices: "array[float]"  # per hour, in the same order
    locations: tuple[Sequence[str], ...]  # their regions, zones and names, each in the same order


@dataclass(frozen=True, slots=True)
class PerformanceClass:
    """Kinds that differ in CPUs, memory and disk alone: a run takes as long on all of them."""

    combined: CandidateGroup  # of all its kinds, for whom their size makes no difference
    groups: Sequence[CandidateGroup]

    @property
    def representative(self) -> Candidate:
        return self.combined.representative


class CandidateSet(Sequence[Candidate]):
    """Places by their number. Made once and planned on often: making it costs far more than one plan."""

    def __init__(
        self, candidates: Sequence[Candidate], families: Iterable[tuple[Any, PerformanceClass]]
    ) -> None:
        self._candidates = candidates
        self._classes = sorted(families, key=itemgetter(0))

    @property
    def classes(self) -> Iterator[PerformanceClass]:
        """In an order that does not depend on how the places came."""
        return (family for _, family in self._classes)

    @classmethod
    def of(cls, candidates: Iterable[Candidate]) -> "CandidateSet":
        rows = tuple(candidates)
        groups: dict[tuple[Any, ...], list[int]] = {}
        for index, candidate in enumerate(rows):
            groups.setdefault(group_key(candidate), []).append(index)
        sort_keys = list(map(_SORT_FIELDS, rows))
        ordered = [sorted(indices, key=sort_keys.__getitem__) for indices in groups.values()]
        return cls.from_groups(rows, (_make_group(rows, indices) for indices in ordered))

    @classmethod
    def from_groups(cls, candidates: Sequence[Candidate], groups: Iterable[CandidateGroup]) -> "CandidateSet":
        """Of places that are sorted by kind already."""
        families: dict[tuple[Any, ...], list[CandidateGroup]] = {}
        for group in sorted(
            groups, key=lambda each: (group_key(each.representative), each.representative.offer.name)
        ):
            families.setdefault(class_key(group.representative), []).append(group)
        return cls(
            candidates,
            [(key, PerformanceClass(_combine(groups), groups)) for key, groups in families.items()],
        )

    def extend(self, additional: Sequence[Candidate]) -> "CandidateSet":
        """With a few more of one's own; the many are not sorted again."""
        others, first = CandidateSet.of(additional), len(self)
        shifted = [(key, _renumber(family, first)) for key, family in others._classes]
        return CandidateSet(_Concatenation(self._candidates, others), [*self._classes, *shifted])

    @property
    def group_count(self) -> int:
        return sum(len(family.groups) for _, family in self._classes)

    def __len__(self) -> int:
        return len(self._candidates)

    @overload
    def __getitem__(self, index: int) -> Candidate: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Candidate]: ...
    def __getitem__(self, index: int | slice) -> Candidate | Sequence[Candidate]:
        return self._candidates[index]

    def __iter__(self) -> Iterator[Candidate]:
        return iter(self._candidates)


_SORT_FIELDS = attrgetter("offer.price_microusd_per_hour", "offer.name", "offer.region", "offer.zone")
_SIZE_FIELDS = attrgetter("offer.cpus", "offer.memory_gib", "offer.disk_gib")
_CLASS_FIELDS = attrgetter(
    "offer.backend",
    "offer.gpu_kind",
    "offer.gpu_count",
    "offer.gpu_memory_gib",
    "offer.interruptible",
    "offer.is_paid",
    "offer.containers",
    "offer.refused",
    "offer.billing.step_s",
    "offer.billing.minimum_s",
    "offer.max_run_or_inf_s",
    "offer.driver",
    "boot_s",
    "egress_microusd_per_gib",
    "configured",
    "dedicated",
    "credit_microusd",
)


def class_key(candidate: Candidate) -> tuple[Any, ...]:
    """All that decides how long a job takes there. Machines without a GPU are known by their name."""
    return *_CLASS_FIELDS(candidate), "" if candidate.offer.gpu_kind else candidate.offer.name


def group_key(candidate: Candidate) -> tuple[Any, ...]:
    """All that decides whether a job fits and how long it takes."""
    return *class_key(candidate), *_SIZE_FIELDS(candidate)


def location_of(offer: Offer) -> Location:
    return Location(offer.region, offer.zone, offer.name)


def _make_group(candidates: Sequence[Candidate], indices: Sequence[int]) -> CandidateGroup:
    prices = array("d", [candidates[index].offer.price_microusd_per_hour for index in indices])
    locations = zip(*(location_of(candidates[index].offer) for index in indices), strict=True)
    return CandidateGroup(candidates[indices[0]], indices, prices, tuple(locations))


def _combine(groups: Sequence[CandidateGroup]) -> CandidateGroup:
    """Kinds as one, cheapest first; of the same price the kind that comes first."""
    if len(groups) == 1:
        return groups[0]
    rows = [
        each for group in groups for each in zip(group.prices, group.indices, *group.locations, strict=True)
    ]
    prices, indices, *locations = zip(*sorted(rows, key=itemgetter(0)), strict=True)
    return CandidateGroup(groups[0].representative, indices, array("d", prices), tuple(locations))


def _renumber(family: PerformanceClass, first: int) -> PerformanceClass:
    """The same, numbered from `first`."""
    whole, *groups = (
        replace(each, indices=[first + index for index in each.indices])
        for each in (family.combined, *family.groups)
    )
    return PerformanceClass(whole, groups)


class _Concatenation(Sequence[Candidate]):
    """One after the other."""

    def __init__(self, one: Sequence[Candidate], other: Sequence[Candidate]) -> None:
        self._first, self._second = one, other

    def __len__(self) -> int:
        return len(self._first) + len(self._second)

    @overload
    def __getitem__(self, at: int) -> Candidate: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Candidate, ...]: ...
    def __getitem__(self, at: int | slice) -> Candidate | tuple[Candidate, ...]:
        if isinstance(at, slice):
            return tuple(self[index] for index in range(len(self))[at])
        index = range(len(self))[at]
        return self._first[index] if index < len(self._first) else self._second[index - len(self._first)]
