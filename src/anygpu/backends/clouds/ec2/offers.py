"""Offers of one EC2 region: on demand, spot by zone, and capacity that is already paid for.

On-demand prices come from a table in this package, because AWS's Pricing API needs a permission and a region
of its own. An instance type or region that is not in the table has no on-demand offer, because its price is
unknown.
"""

import csv
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from anygpu.backends.clouds.ec2.api import AwsClient
from anygpu.events.offers import MICROUSD, Billing, Offer
from anygpu.spec.sections import Resources

PRICES = Path(__file__).with_name("prices.csv")


def on_demand_microusd(instance_type: str, region: str) -> int | None:
    """Return the on-demand price per hour in micro-dollars; None if it is unknown."""
    return _price_table().get((instance_type, region))


@cache
def _price_table() -> dict[tuple[str, str], int]:
    with PRICES.open(newline="") as file:
        rows = [*csv.DictReader(line for line in file if not line.startswith("#"))]
    return {
        (row["type"], region): round(float(price) * MICROUSD)
        for row in rows
        for region, price in row.items()
        if region != "type" and price
    }


# Current families with NVIDIA GPUs on x86, without fractional GPUs (g6f) and bare metal.
GPU_FAMILIES = ("g4dn", "g5", "g6", "gr6", "g6e", "g7", "g7e", "p4d", "p4de", "p5", "p5e", "p5en", "p6-b200")
CPU_TYPES = ("t3.medium", "t3.large", "t3.xlarge", "c7i.large", "c7i.xlarge", "c7i.2xlarge", "m7i.xlarge")
LINUX = "Linux/UNIX"
PER_SECOND = Billing(step_s=1, minimum_s=60)  # Linux: aws.amazon.com/ec2/pricing/on-demand
BLOCK_MARGIN_S = 1800  # EC2 ends instances 30 minutes before the Capacity Block ends (EC2 User Guide)


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityReservation:
    """A capacity reservation of the account. It costs the same whether it is used or not."""

    id: str
    type: str
    zone: str
    free: int
    block: bool
    ends_at: datetime | None


class RegionOffers:
    """Finds the instance types that one region offers, and their prices."""

    def __init__(self, aws: AwsClient, region: str, *, disk_gib: int) -> None:
        self._aws = aws
        self._region = region
        self._disk_gib = disk_gib

    async def instance_types(self, need: Resources, wanted: Sequence[str]) -> list[Offer]:
        """Return the instance types that fit `need` as offers without a price."""
        patterns = [*wanted] or [*_type_patterns(need)]
        pages = self._aws.pages(
            self._region,
            "describe_instance_types",
            "InstanceTypes",
            Filters=[{"Name": "instance-type", "Values": patterns}],
        )
        offers = [self._offer(info) async for info in pages if not info.get("BareMetal")]
        return [offer for offer in offers if _fits(offer, need)]

    def on_demand(self, machines: Iterable[Offer]) -> Iterator[Offer]:
        for machine in machines:
            price = on_demand_microusd(machine.name, self._region)
            if price is not None:
                yield replace(machine, price_microusd_per_hour=price)

    async def spot(self, machines: Sequence[Offer]) -> list[Offer]:
        """Return one spot offer per instance type and zone.

        Prices and the rate of preemptions differ between the zones of a region.
        """
        if not machines:
            return []
        prices = self._aws.pages(
            self._region,
            "describe_spot_price_history",
            "SpotPriceHistory",
            InstanceTypes=[machine.name for machine in machines],
            ProductDescriptions=[LINUX],
            StartTime=datetime.now(UTC),
        )
        newest = _newest_prices([price async for price in prices])
        by_name = {machine.name: machine for machine in machines}
        return [
            replace(by_name[name], zone=zone, interruptible=True, price_microusd_per_hour=price)
            for (name, zone), price in sorted(newest.items())
            if name in by_name
        ]

    async def reserved_capacity(self, ids: Sequence[str]) -> list[CapacityReservation]:
        """Return the reservations with these `ids` that are active in this region."""
        pages = self._aws.pages(
            self._region,
            "describe_capacity_reservations",
            "CapacityReservations",
            Filters=[{"Name": "state", "Values": ["active"]}],
        )
        return [_reservation(item) async for item in pages if item["CapacityReservationId"] in ids]

    async def unused_commitments(self) -> dict[str, tuple[int, int]]:
        """Return the Reserved Instances (prepaid capacity) that are not in use, by instance type.

        The values are their number and their price per hour of use, in micro-dollars.
        """
        bought: Counter[str] = Counter()
        marginal: dict[str, int] = {}
        answer = await self._aws.read(
            self._region, "describe_reserved_instances", Filters=[{"Name": "state", "Values": ["active"]}]
        )
        for item in answer["ReservedInstances"]:
            if item.get("ProductDescription", LINUX).startswith(LINUX):
                bought[item["InstanceType"]] += item["InstanceCount"]
                marginal[item["InstanceType"]] = round(item.get("UsagePrice", 0) * MICROUSD)
        unused = bought - await self._running_on_demand(bought)
        return {name: (count, marginal[name]) for name, count in unused.items()}

    async def _running_on_demand(self, types: Iterable[str]) -> Counter[str]:
        """Return the number of running on-demand instances of the account by instance type.

        All of them use up Reserved Instances, also those that anygpu did not start.
        """
        names = sorted(types)
        if not names:
            return Counter()
        filters = [
            {"Name": "instance-type", "Values": names},
            {"Name": "instance-state-name", "Values": ["pending", "running"]},
        ]
        pages = self._aws.pages(self._region, "describe_instances", "Reservations", Filters=filters)
        instances = [i async for group in pages for i in group["Instances"]]
        return Counter(i["InstanceType"] for i in instances if i.get("InstanceLifecycle") != "spot")

    def _offer(self, info: Mapping[str, Any]) -> Offer:
        gpu: Mapping[str, Any] = next(iter(info.get("GpuInfo", {}).get("Gpus", ())), {})
        return Offer(
            backend="",
            name=info["InstanceType"],
            region=self._region,
            gpu_kind=gpu.get("Name", ""),
            gpu_count=gpu.get("Count", 0),
            gpu_memory_gib=round(gpu.get("MemoryInfo", {}).get("SizeInMiB", 0) / 1024, 1),
            cpus=info["VCpuInfo"]["DefaultVCpus"],
            memory_gib=info["MemoryInfo"]["SizeInMiB"] / 1024,
            disk_gib=self._disk_gib,
            self_expires="halt",
            billing=PER_SECOND,
            interconnect="ethernet",  # machines are started without EFA interfaces
        )


def reservation_offer(machine: Offer, reservation: CapacityReservation, now: datetime) -> Offer:
    """Return an offer for an instance in a capacity reservation.

    `machine` is the offer of the same instance type without a price. The new offer's price is 0, because the
    reservation costs the same whether it is used or not.
    """
    left_s = None
    if reservation.ends_at is not None:
        margin_s = BLOCK_MARGIN_S if reservation.block else 0
        left_s = max(0.0, (reservation.ends_at - now).total_seconds() - margin_s)
    wait = "" if reservation.free else f"no instance of capacity reservation {reservation.id} is free"
    return replace(
        machine,
        zone=reservation.zone,
        free=reservation.free,
        wait_reason=wait,
        max_run_s=left_s,
        price_microusd_per_hour=0,
    )


def at_marginal_price(offer: Offer, unused: Mapping[str, tuple[int, int]]) -> Offer:
    """Return the offer with the price of an unused Reserved Instance (prepaid capacity) of its type.

    Return the offer unchanged if there is no such Reserved Instance.
    """
    if offer.name not in unused:
        return offer
    count, price = unused[offer.name]
    return replace(offer, free=count, price_microusd_per_hour=price)


def _type_patterns(need: Resources) -> Iterator[str]:
    if need.gpu and need.gpu.count:
        yield from (f"{family}.*" for family in GPU_FAMILIES)
    else:
        yield from CPU_TYPES


def _fits(offer: Offer, need: Resources) -> bool:
    """Return whether the offer has enough GPUs for a job with GPUs, or none for a job without.

    The planner checks everything else, and explains to the user why an offer is rejected.
    """
    wanted = need.gpu.count if need.gpu else 0
    return offer.gpu_count >= wanted and bool(offer.gpu_count) == bool(wanted)


def _newest_prices(prices: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], int]:
    newest: dict[tuple[str, str], tuple[datetime, int]] = {}
    for item in prices:
        key = item["InstanceType"], item["AvailabilityZone"]
        entry = item["Timestamp"], round(float(item["SpotPrice"]) * MICROUSD)
        if key not in newest or entry[0] > newest[key][0]:
            newest[key] = entry
    return {key: price for key, (_, price) in newest.items()}


def _reservation(item: Mapping[str, Any]) -> CapacityReservation:
    return CapacityReservation(
        id=item["CapacityReservationId"],
        type=item["InstanceType"],
        zone=item["AvailabilityZone"],
        free=item["AvailableInstanceCount"],
        block=item.get("ReservationType") == "capacity-block",
        ends_at=item.get("EndDate"),
    )
