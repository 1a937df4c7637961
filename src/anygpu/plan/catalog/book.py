"""The catalog in memory: columns sorted by price, so that filtering keeps the order and nothing is sorted again.

Fifty thousand rows have far fewer shapes (a machine in a market) and regions than rows. What is asked is decided once
for each shape and each region; a row is then two look-ups.
"""

from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import date
from typing import NamedTuple, TypeVar

from anygpu.plan import gpus
from anygpu.plan.catalog.candidates import Candidate, Candidates
from anygpu.plan.catalog.policy import NO_POLICY, Policy
from anygpu.plan.catalog.rows import Row
from anygpu.plan.catalog.terms import Terms, terms
from anygpu.spec.model import Gpu, Resources

STALE_DAYS = 90
ANYTHING = Resources()
V = TypeVar("V")


class Shape(NamedTuple):
    """A machine in a market, wherever it stands."""

    cloud: str
    name: str
    gpu: str
    gpu_count: int
    gpu_memory_gib: float
    cpus: float
    memory_gib: float
    spot: bool


class Proof(NamedTuple):
    """Who said so, and when."""

    source: str
    recorded: str
    age_days: int


class Catalog:
    """Priced places of one organisation. Build it once and ask it often."""

    def __init__(
        self, rows: Iterable[Row], *, today: date, policy: Policy = NO_POLICY, stale_days: int = STALE_DAYS
    ) -> None:
        self.today = today
        self.stale_days = stale_days
        self.policy = policy
        priced = [(policy.pays(row.cloud, row.instance_type, row.price_microusd or 0), row) for row in rows]
        priced.sort()
        self._price = array("q", [price for price, _ in priced])
        self._list = array("q", [row.price_microusd or 0 for _, row in priced])
        self._shapes, self._shape = _numbered([_shape(row) for _, row in priced])
        self._regions, self._region = _numbered([row.region for _, row in priced])
        proofs, self._proof = _numbered([(row.source, row.recorded) for _, row in priced])
        self._proofs = [Proof(*each, (today - date.fromisoformat(each[1])).days) for each in proofs]

    def __len__(self) -> int:
        return len(self._price)

    @property
    def shapes(self) -> Sequence[Shape]:
        return self._shapes

    @property
    def proofs(self) -> Sequence[Proof]:
        return self._proofs

    def candidates(
        self,
        need: Resources = ANYTHING,
        *,
        clouds: Collection[str] = (),
        regions: Collection[str] = (),
        spot: bool | None = None,
        dedicated: bool = False,
        least_gpu_gib: float = 0,
        max_microusd_per_hour: int | None = None,
    ) -> Candidates:
        """Everything that holds `need`, cheapest first; `spot` None takes both markets.

        `least_gpu_gib` is a predicted need, beside what the job says. Rows without a region are anywhere.
        """
        fits = self._fitting(need, clouds, spot, dedicated, least_gpu_gib)
        found = [row for row, shape in enumerate(self._shape) if fits[shape]]
        if regions:
            there = bytearray(not region or region in regions for region in self._regions)
            found = [row for row in found if there[self._region[row]]]
        return Candidates(
            self, found if max_microusd_per_hour is None else self._up_to(found, max_microusd_per_hour)
        )

    def candidate(self, row: int) -> Candidate:
        shape, proof = self._shapes[self._shape[row]], self._proofs[self._proof[row]]
        place = terms()[shape.cloud]
        return Candidate(
            cloud=shape.cloud,
            provider=place.provider,
            name=shape.name,
            region=self._regions[self._region[row]],
            gpu_kind=shape.gpu,
            gpu_count=shape.gpu_count,
            gpu_memory_gib=shape.gpu_memory_gib,
            cpus=shape.cpus,
            memory_gib=shape.memory_gib,
            interruptible=shape.spot,
            price_microusd_per_hour=self._price[row],
            list_microusd_per_hour=self._list[row],
            credit_microusd=self.policy.credit_microusd(shape.cloud),
            billing=place.billing,
            setup_s=place.setup_s,
            egress_microusd_per_gib=place.egress_microusd_per_gib,
            max_run_s=place.max_run_s,
            dedicated=place.dedicated,
            source=proof.source,
            recorded=proof.recorded,
            age_days=proof.age_days,
            stale=proof.age_days > self.stale_days,
        )

    def price(self, row: int) -> int:
        """Per hour, as the organisation pays it."""
        return self._price[row]

    def region(self, row: int) -> str:
        return self._regions[self._region[row]]

    def rows_of_each_shape(self) -> Iterator[Sequence[int]]:
        """Cheapest first."""
        found = [array("l") for _ in self._shapes]
        for row, shape in enumerate(self._shape):
            found[shape].append(row)
        return iter(found)

    def cheapest_of_each_shape(self, rows: Sequence[int]) -> list[int]:
        # Filled from the dear end, so that the cheapest of a shape is what stays.
        backwards = rows[::-1]
        first = dict(zip(map(self._shape.__getitem__, backwards), backwards, strict=True))
        return sorted(first.values())

    def regions_of(self, rows: Iterable[int]) -> dict[tuple[str, str, bool], int]:
        found: dict[tuple[str, str, bool], set[int]] = {}
        for row in rows:
            shape = self._shapes[self._shape[row]]
            found.setdefault((shape.cloud, shape.name, shape.spot), set()).add(self._region[row])
        return {key: len(regions) for key, regions in found.items()}

    def _fitting(
        self, need: Resources, clouds: Collection[str], spot: bool | None, dedicated: bool, least_gib: float
    ) -> bytearray:
        """Whether each shape will do."""
        kinds = _kinds({shape.gpu for shape in self._shapes}, need.gpu)
        places = {each.cloud for each in terms().values() if _will_do(each, clouds, dedicated)}
        return bytearray(
            shape.cloud in places
            and shape.gpu in kinds
            and (spot is None or shape.spot is spot)
            and shape.gpu_memory_gib >= least_gib
            and _holds(shape, need)
            for shape in self._shapes
        )

    def _up_to(self, rows: list[int], limit: int) -> list[int]:
        return [row for row in rows if self._price[row] <= limit]


def _kinds(offered: Collection[str], gpu: Gpu | None) -> set[str]:
    if gpu is None or gpu.kind is None:
        return set(offered)
    return {kind for kind in offered if gpus.matches(gpu.kind, kind)}


def _will_do(place: Terms, clouds: Collection[str], dedicated: bool) -> bool:
    return (not clouds or place.cloud in clouds) and (place.dedicated or not dedicated)


def _holds(shape: Shape, need: Resources) -> bool:
    """A size that is not known is given the benefit of the doubt, as the router does with live offers."""
    wanted = ((need.cpus, shape.cpus), (need.memory_gib, shape.memory_gib))
    if any(asked and has and asked > has for asked, has in wanted):
        return False
    gpu = need.gpu
    if gpu is None or not gpu.count:
        return True
    too_small = gpu.memory_gib and shape.gpu_memory_gib and gpu.memory_gib > shape.gpu_memory_gib
    return shape.gpu_count >= gpu.count and not too_small


def _shape(row: Row) -> Shape:
    known = gpus.spec(row.gpu)
    memory = known.memory_gib if known else 0.0
    return Shape(
        row.cloud, row.instance_type, row.gpu, row.gpu_count, memory, row.cpus, row.memory_gib, row.spot
    )


def _numbered(values: list[V]) -> tuple[list[V], "array[int]"]:
    """The different values, and for each value its number among them."""
    numbers: dict[V, int] = {}
    column = array("l", [numbers.setdefault(value, len(numbers)) for value in values])
    return list(numbers), column
