"""The price catalog in memory, sorted by price.

A search is fast because it tests each machine type and each region once, not each price.
"""

from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, NamedTuple, TypeVar, overload

from anygpu.events.offers import Billing, Offer
from anygpu.plan.catalog.discounts import NO_POLICY, CatalogPolicy
from anygpu.plan.catalog.tables import PriceRow
from anygpu.plan.catalog.terms import CloudTerms, terms
from anygpu.plan.hardware import gpus
from anygpu.spec.sections import Gpu, Resources

if TYPE_CHECKING:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogOffer:
    """An offer from the catalog, with the organisation's price and the source of that price."""

    cloud: str
    provider: str
    name: str  # the instance type
    region: str
    gpu_kind: str
    gpu_count: int
    gpu_memory_gib: float
    cpus: float
    memory_gib: float
    interruptible: bool
    price_microusd_per_hour: int
    list_microusd_per_hour: int
    credit_microusd: int  # remaining credit with this provider
    billing: Billing
    setup_s: float
    egress_microusd_per_gib: int | None
    max_run_s: float | None
    dedicated: bool
    source: str
    recorded: str
    age_days: int
    stale: bool

    def cost_microusd(self, used_s: int) -> int:
        """Return the cost of `used_s` seconds in micro-dollars by the provider's billing rule."""
        return self.billing.cost_microusd(self.price_microusd_per_hour, used_s)

    def to_offer(self, backend: str = "") -> Offer:
        """Return this as an `Offer` of `backend`; if `backend` is empty, the cloud's name takes its place."""
        return Offer(
            backend=backend or self.cloud,
            name=self.name,
            region=self.region,
            gpu_kind=self.gpu_kind,
            gpu_count=self.gpu_count,
            gpu_memory_gib=self.gpu_memory_gib,
            cpus=self.cpus,
            memory_gib=self.memory_gib,
            interruptible=self.interruptible,
            price_microusd_per_hour=self.price_microusd_per_hour,
            expected_wait_s=self.setup_s,
            max_run_s=self.max_run_s,
            billing=self.billing,
            own=terms()[self.cloud].is_owned,
            max_nodes=terms()[self.cloud].max_nodes,
            interconnect=terms()[self.cloud].interconnect,
        )


class CatalogOffers(Sequence[CatalogOffer]):
    """Search results, cheapest first. Each `CatalogOffer` object is created when it is accessed."""

    def __init__(self, catalog: "Catalog", positions: Sequence[int]) -> None:
        self._catalog = catalog
        self._positions = positions

    def __len__(self) -> int:
        return len(self._positions)

    @overload
    def __getitem__(self, cloud_terms: int) -> CatalogOffer: ...
    @overload
    def __getitem__(self, cloud_terms: slice) -> "CatalogOffers": ...
    def __getitem__(self, cloud_terms: int | slice) -> "CatalogOffer | CatalogOffers":
        if isinstance(cloud_terms, slice):
            return CatalogOffers(self._catalog, self._positions[cloud_terms])
        return self._catalog.offer_at(self._positions[cloud_terms])

    def __iter__(self) -> Iterator[CatalogOffer]:
        return map(self._catalog.offer_at, self._positions)

    def one_per_shape(self) -> "CatalogOffers":
        """Return one offer for each machine type, on demand and as spot: that in the cheapest region."""
        return CatalogOffers(self._catalog, self._catalog.cheapest_per_shape(self._positions))

    def region_counts(self) -> dict[tuple[str, str, bool], int]:
        """Return the number of regions for each (cloud, machine name, is spot)."""
        return self._catalog.count_regions(self._positions)


STALE_DAYS = 90
ANYTHING = Resources()
V = TypeVar("V")


class MachineShape(NamedTuple):
    """A machine type, either on demand or as spot, in any region."""

    cloud: str
    name: str
    gpu: str
    gpu_count: int
    gpu_memory_gib: float
    cpus: float
    memory_gib: float
    spot: bool


class PriceSource(NamedTuple):
    """Source and date of a price."""

    source: str
    recorded: str
    age_days: int


class Catalog:
    """The priced offers of one organisation. Building a catalog is slow, searching it is fast."""

    def __init__(
        self,
        rows: Iterable[PriceRow],
        *,
        today: date,
        policy: CatalogPolicy = NO_POLICY,
        stale_days: int = STALE_DAYS,
    ) -> None:
        self.today = today
        self.stale_days = stale_days
        self.policy = policy
        priced = [(policy.price(row.cloud, row.instance_type, row.price_microusd or 0), row) for row in rows]
        priced.sort()
        self._prices = array("q", [price for price, _ in priced])
        self._list_prices = array("q", [row.price_microusd or 0 for _, row in priced])
        self._shapes, self._shape_index = _index_values([_shape(row) for _, row in priced])
        self._regions, self._region_index = _index_values([row.region for _, row in priced])
        proofs, self._source_index = _index_values([(row.source, row.recorded) for _, row in priced])
        self._sources = [PriceSource(*each, (today - date.fromisoformat(each[1])).days) for each in proofs]

    def __len__(self) -> int:
        return len(self._prices)

    @property
    def shapes(self) -> Sequence[MachineShape]:
        return self._shapes

    @property
    def regions(self) -> frozenset[str]:
        return frozenset(filter(None, self._regions))

    @property
    def sources(self) -> Sequence[PriceSource]:
        return self._sources

    def search(
        self,
        need: Resources = ANYTHING,
        *,
        clouds: Collection[str] = (),
        regions: Collection[str] = (),
        spot: bool | None = None,
        dedicated: bool = False,
        least_gpu_gib: float = 0,
        max_microusd_per_hour: int | None = None,
    ) -> CatalogOffers:
        """Return the offers with at least the resources `need`, cheapest first.

        With `spot` None, both on-demand and spot offers are returned. `least_gpu_gib` is the GPU memory that
        the job is predicted to need. Offers without a region match every requested region.
        """
        fits = self._matching_shapes(need, clouds, spot, dedicated, least_gpu_gib)
        results = [row for row, shape in enumerate(self._shape_index) if fits[shape]]
        if regions:
            there = bytearray(not region or region in regions for region in self._regions)
            results = [row for row in results if there[self._region_index[row]]]
        return CatalogOffers(
            self,
            results if max_microusd_per_hour is None else self._within_price(results, max_microusd_per_hour),
        )

    def offer_at(self, row: int) -> CatalogOffer:
        shape, proof = self._shapes[self._shape_index[row]], self._sources[self._source_index[row]]
        cloud_terms = terms()[shape.cloud]
        return CatalogOffer(
            cloud=shape.cloud,
            provider=cloud_terms.provider,
            name=shape.name,
            region=self._regions[self._region_index[row]],
            gpu_kind=shape.gpu,
            gpu_count=shape.gpu_count,
            gpu_memory_gib=shape.gpu_memory_gib,
            cpus=shape.cpus,
            memory_gib=shape.memory_gib,
            interruptible=shape.spot,
            price_microusd_per_hour=self._prices[row],
            list_microusd_per_hour=self._list_prices[row],
            credit_microusd=self.policy.credit_microusd(shape.cloud),
            billing=cloud_terms.billing,
            setup_s=cloud_terms.setup_s,
            egress_microusd_per_gib=cloud_terms.egress_microusd_per_gib,
            max_run_s=cloud_terms.max_run_s,
            dedicated=cloud_terms.dedicated,
            source=proof.source,
            recorded=proof.recorded,
            age_days=proof.age_days,
            stale=proof.age_days > self.stale_days,
        )

    def price_at(self, row: int) -> int:
        """Return the price per hour of a row in micro-dollars, after the organisation's discounts."""
        return self._prices[row]

    def region_at(self, row: int) -> str:
        return self._regions[self._region_index[row]]

    def age_days_at(self, row: int) -> int:
        return self._sources[self._source_index[row]].age_days

    def rows_by_shape(self) -> Iterator[Sequence[int]]:
        """Return an iterator over machine types and markets, each with its row numbers in the table, cheapest first."""
        results = [array("l") for _ in self._shapes]
        for row, shape in enumerate(self._shape_index):
            results[shape].append(row)
        return iter(results)

    def cheapest_per_shape(self, rows: Sequence[int]) -> list[int]:
        # Filled from the most expensive, so that the cheapest row of a shape remains.
        backwards = rows[::-1]
        first = dict(zip(map(self._shape_index.__getitem__, backwards), backwards, strict=True))
        return sorted(first.values())

    def count_regions(self, rows: Iterable[int]) -> dict[tuple[str, str, bool], int]:
        results: dict[tuple[str, str, bool], set[int]] = {}
        for row in rows:
            shape = self._shapes[self._shape_index[row]]
            results.setdefault((shape.cloud, shape.name, shape.spot), set()).add(self._region_index[row])
        return {key: len(regions) for key, regions in results.items()}

    def _matching_shapes(
        self, need: Resources, clouds: Collection[str], spot: bool | None, dedicated: bool, least_gib: float
    ) -> bytearray:
        """Return one byte per machine type and market (on-demand or spot): 1 if it matches the search, else 0."""
        kinds = _matching_kinds({shape.gpu for shape in self._shapes}, need.gpu)
        places = {each.cloud for each in terms().values() if _is_allowed(each, clouds, dedicated)}
        return bytearray(
            shape.cloud in places
            and shape.gpu in kinds
            and (spot is None or shape.spot is spot)
            and shape.gpu_memory_gib >= least_gib
            and _has_resources(shape, need)
            for shape in self._shapes
        )

    def _within_price(self, rows: list[int], limit: int) -> list[int]:
        return [row for row in rows if self._prices[row] <= limit]


def _matching_kinds(offered: Collection[str], gpu: Gpu | None) -> set[str]:
    if gpu is None or gpu.kind is None:
        return set(offered)
    return {kind for kind in offered if gpus.matches(gpu.kind, kind)}


def _is_allowed(cloud_terms: CloudTerms, clouds: Collection[str], dedicated: bool) -> bool:
    return (not clouds or cloud_terms.cloud in clouds) and (cloud_terms.dedicated or not dedicated)


def _has_resources(shape: MachineShape, need: Resources) -> bool:
    """Return whether a machine shape has the needed resources.

    An unknown number of CPUs or amount of memory counts as sufficient.
    """
    required = ((need.cpus, shape.cpus), (need.memory_gib, shape.memory_gib))
    if any(asked and has and asked > has for asked, has in required):
        return False
    gpu = need.gpu
    if gpu is None or not gpu.count:
        return True
    too_small = gpu.memory_gib and shape.gpu_memory_gib and gpu.memory_gib > shape.gpu_memory_gib
    return shape.gpu_count >= gpu.count and not too_small


def _shape(row: PriceRow) -> MachineShape:
    known = gpus.spec(row.gpu)
    memory = known.memory_gib if known else 0.0
    return MachineShape(
        row.cloud, row.instance_type, row.gpu, row.gpu_count, memory, row.cpus, row.memory_gib, row.spot
    )


def _index_values(values: list[V]) -> tuple[list[V], "array[int]"]:
    """Return the different values, and for each given value its index among them."""
    numbers: dict[V, int] = {}
    column = array("l", [numbers.setdefault(value, len(numbers)) for value in values])
    return list(numbers), column
