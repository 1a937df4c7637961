"""Candidates (offers with the terms of their backend), and sets of candidates that can be ranked fast."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple, overload

from anygpu.events.offers import Offer
from anygpu.plan.hardware.networks import find_network

OLD_PRICE_DAYS = 365  # offers with prices of this age are ranked last
RENTED_BOOT_S, OWN_BOOT_S = 60.0, 0.5  # assumed when the offer states no waiting time


class BackendTerms(NamedTuple):
    """What a backend charges apart from the prices of its machines: remaining credit, and the price of downloads."""

    credit_microusd: int = 0  # remaining credit of the organisation
    egress_microusd_per_gib: int = 0


NO_TERMS = BackendTerms()


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """An offer that a job could take, with the terms that apply to it."""

    offer: Offer
    boot_s: float = 5.0
    egress_microusd_per_gib: int = 0
    stale_days: int = 0  # age of the price; 0 while it is recent enough to trust
    price_date: str = ""  # date of a price that is not recent; empty if it is
    configured: bool = False  # from a configured backend, so it can be used now
    has_backend: bool = True  # anygpu can rent it, once the user has configured an account
    dedicated: bool = True  # the job does not share the operating system or the GPU
    credit_microusd: int = 0  # remaining credit of the organisation with this provider

    @property
    def has_old_price(self) -> bool:
        return self.stale_days >= OLD_PRICE_DAYS

    @property
    def network(self) -> tuple[str, float]:
        """Kind and speed of the network between several such machines; nothing if a job gets one machine only."""
        if self.offer.max_nodes == 1:
            return "", 0.0
        network = find_network(self.offer.name, self.offer.interconnect)
        return network.kind, network.gbit_s

    @classmethod
    def from_offer(cls, offer: Offer, terms: BackendTerms = NO_TERMS) -> "Candidate":
        """Return the candidate for an offer of a configured backend."""
        default_boot_s = RENTED_BOOT_S if offer.is_rented else OWN_BOOT_S
        return cls(
            offer=offer,
            boot_s=offer.expected_wait_s or default_boot_s,
            configured=True,
            credit_microusd=terms.credit_microusd,
            egress_microusd_per_gib=terms.egress_microusd_per_gib,
        )


class Location(NamedTuple):
    """Region, zone and machine type of an offer."""

    region: str
    zone: str
    name: str


@dataclass(frozen=True, slots=True)
class CandidateGroup:
    """Candidates that differ only in price, location and age of the price."""

    representative: Candidate
    indices: Sequence[int]  # in the candidate set, cheapest first
    prices: "array[float]"  # per hour, in the same order
    locations: tuple[Sequence[str], ...]  # regions, zones and names, each in the same order


@dataclass(frozen=True, slots=True)
class PerformanceClass:
    """Machines on which a run takes equally long, and which are billed equally.

    They may differ in CPUs, memory and disk.
    """

    combined: CandidateGroup  # all groups as one, for jobs without size requirements
    groups: Sequence[CandidateGroup]

    @property
    def representative(self) -> Candidate:
        return self.combined.representative


class CandidateSet(Sequence[Candidate]):
    """Candidates grouped by equal machines, so that they can be ranked fast.

    Building the set takes far longer than one ranking, so build it once and use it for many jobs.
    """

    def __init__(
        self, candidates: Sequence[Candidate], classes: Iterable[tuple[Any, PerformanceClass]]
    ) -> None:
        self._candidates = candidates
        self._classes = sorted(classes, key=itemgetter(0))

    @property
    def classes(self) -> Iterator[PerformanceClass]:
        """The candidates grouped by speed, in an order that does not depend on the order of the candidates."""
        return (each for _, each in self._classes)

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
        """Build the set from candidates that are grouped already."""
        classes: dict[tuple[Any, ...], list[CandidateGroup]] = {}
        for group in sorted(
            groups, key=lambda each: (group_key(each.representative), each.representative.offer.name)
        ):
            classes.setdefault(class_key(group.representative), []).append(group)
        return cls(
            candidates,
            [(key, PerformanceClass(_combine(groups), groups)) for key, groups in classes.items()],
        )

    def extend(self, additional: Sequence[Candidate]) -> "CandidateSet":
        """Return a set with a few more candidates, without grouping the existing ones again."""
        others, first = CandidateSet.of(additional), len(self)
        shifted = [(key, _renumber(each, first)) for key, each in others._classes]
        return CandidateSet(_Concatenation(self._candidates, others), [*self._classes, *shifted])

    def count_by_backend(self) -> dict[str, int]:
        """Return the number of candidates of each backend or cloud, by name."""
        counts: dict[str, int] = {}
        for _, each in self._classes:
            backend = each.representative.offer.backend
            counts[backend] = counts.get(backend, 0) + len(each.combined.indices)
        return dict(sorted(counts.items()))

    def location_names(self, field: int) -> set[str]:
        """Return the names that the candidates have in one field of `Location`."""
        return {name for _, each in self._classes for name in each.combined.locations[field] if name}

    @property
    def group_count(self) -> int:
        return sum(len(each.groups) for _, each in self._classes)

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
    "offer.own",
    "offer.containers",
    "offer.shared",
    "offer.max_nodes",
    "network",
    "offer.missing_modules",
    "offer.refused",
    "offer.answered",
    "offer.free_or_inf",
    "offer.billing.step_s",
    "offer.billing.minimum_s",
    "offer.max_run_or_inf_s",
    "offer.driver",
    "boot_s",
    "egress_microusd_per_gib",
    "configured",
    "has_backend",
    "has_old_price",
    "dedicated",
    "credit_microusd",
)


def class_key(candidate: Candidate) -> tuple[Any, ...]:
    """Return the properties that determine how long a job takes on a candidate and how it is billed.

    For a machine without a GPU, the name of the machine type is one of them.
    """
    return *_CLASS_FIELDS(candidate), "" if candidate.offer.gpu_kind else candidate.offer.name


def group_key(candidate: Candidate) -> tuple[Any, ...]:
    """Return the properties of `class_key`, and CPUs, memory and disk, which determine whether a job fits."""
    return *class_key(candidate), *_SIZE_FIELDS(candidate)


def location_of(offer: Offer) -> Location:
    return Location(offer.region, offer.zone, offer.name)


def _make_group(candidates: Sequence[Candidate], indices: Sequence[int]) -> CandidateGroup:
    prices = array("d", [candidates[index].offer.price_microusd_per_hour for index in indices])
    locations = zip(*(location_of(candidates[index].offer) for index in indices), strict=True)
    return CandidateGroup(candidates[indices[0]], indices, prices, tuple(locations))


def _combine(groups: Sequence[CandidateGroup]) -> CandidateGroup:
    """Merge groups into one, cheapest candidate first.

    At equal prices, the candidates of earlier groups come first.
    """
    if len(groups) == 1:
        return groups[0]
    rows = [
        each for group in groups for each in zip(group.prices, group.indices, *group.locations, strict=True)
    ]
    prices, indices, *locations = zip(*sorted(rows, key=itemgetter(0)), strict=True)
    return CandidateGroup(groups[0].representative, indices, array("d", prices), tuple(locations))


def _renumber(performance_class: PerformanceClass, first: int) -> PerformanceClass:
    """Return the group with `first` added to the index of every candidate."""
    combined, *groups = (
        replace(each, indices=[first + index for index in each.indices])
        for each in (performance_class.combined, *performance_class.groups)
    )
    return PerformanceClass(combined, groups)


class _Concatenation(Sequence[Candidate]):
    """Two sequences as one, without copying them."""

    def __init__(self, first: Sequence[Candidate], second: Sequence[Candidate]) -> None:
        self._first, self._second = first, second

    def __len__(self) -> int:
        return len(self._first) + len(self._second)

    @overload
    def __getitem__(self, position: int) -> Candidate: ...
    @overload
    def __getitem__(self, position: slice) -> tuple[Candidate, ...]: ...
    def __getitem__(self, position: int | slice) -> Candidate | tuple[Candidate, ...]:
        if isinstance(position, slice):
            return tuple(self[index] for index in range(len(self))[position])
        index = range(len(self))[position]
        return self._first[index] if index < len(self._first) else self._second[index - len(self._first)]
