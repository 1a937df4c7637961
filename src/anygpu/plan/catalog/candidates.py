"""Places from the catalog that could take a job, cheapest first; each is made only when it is looked at."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, overload

from anygpu.events.facts import Billing, Offer

if TYPE_CHECKING:
    from anygpu.plan.catalog.book import Catalog


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A place a job could run, at what the organisation pays there, with the proof of the price."""

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
    credit_microusd: int  # what is left to spend at this provider before it costs money
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
        """Of a run by the provider's billing rule, before credits."""
        return self.billing.cost_microusd(self.price_microusd_per_hour, used_s)

    def offer(self, backend: str = "") -> Offer:
        """As the router knows it. `backend` is the configured one that rents there; the cloud's name without one."""
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
        )


class Candidates(Sequence[Candidate]):
    """Positions in a catalog, cheapest first."""

    def __init__(self, catalog: "Catalog", positions: Sequence[int]) -> None:
        self._catalog = catalog
        self._positions = positions

    def __len__(self) -> int:
        return len(self._positions)

    @overload
    def __getitem__(self, place: int) -> Candidate: ...
    @overload
    def __getitem__(self, place: slice) -> "Candidates": ...
    def __getitem__(self, place: int | slice) -> "Candidate | Candidates":
        if isinstance(place, slice):
            return Candidates(self._catalog, self._positions[place])
        return self._catalog.candidate(self._positions[place])

    def __iter__(self) -> Iterator[Candidate]:
        return map(self._catalog.candidate, self._positions)

    def one_per_shape(self) -> "Candidates":
        """The cheapest region of each machine and market: a short list instead of near-identical rows."""
        return Candidates(self._catalog, self._catalog.cheapest_of_each_shape(self._positions))

    def regions(self) -> dict[tuple[str, str, bool], int]:
        """In how many regions each machine is to be had, by cloud, name and market."""
        return self._catalog.regions_of(self._positions)
