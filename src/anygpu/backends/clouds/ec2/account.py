"""The AWS account: identity, quotas, metered cost, and leftover resources.

Leftovers are disks, addresses and keys with anygpu's tag that belong to no machine. A failed launch may leave
them behind.
"""

import contextlib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from anygpu.backends.clouds.ec2.api import AwsClient
from anygpu.backends.clouds.ec2.translate import NAME_TAG, name_of
from anygpu.backends.contract import AccountStatus, Leftover
from anygpu.backends.vm.provider import CloudMachine, ResourceNotFound
from anygpu.errors import AnygpuError
from anygpu.events.offers import MICROUSD

# Service Quotas counts vCPUs (service-quotas, service "ec2").
QUOTAS = {
    "L-DB2E81BA": "G on demand",
    "L-3819A6DF": "G spot",
    "L-417A185B": "P on demand",
    "L-7212CCBC": "P4 spot",
    "L-C4BD4855": "P5 spot",
}
COMPUTE_SERVICE = "Amazon Elastic Compute Cloud - Compute"
COST_REGION = "us-east-1"  # Cost Explorer has one endpoint


async def check_account(aws: AwsClient, regions: Sequence[str]) -> AccountStatus:
    """Check that the credentials work (with STS) and that each region is accessible.

    The status has the quotas but no balance, because AWS reports none.
    """
    try:
        identity = await aws.read(regions[0], "get_caller_identity", service="sts")
        for region in regions:
            await aws.read(region, "describe_availability_zones")
    except AnygpuError as error:
        return AccountStatus(valid=False, message=str(error))
    quotas = [f"{region}: {await _describe_quotas(aws, region)}" for region in regions]
    return AccountStatus(
        valid=True, message=f"{identity['Arn']} by {aws.credentials_label}", quota="; ".join(quotas)
    )


async def _describe_quotas(aws: AwsClient, region: str) -> str:
    """Return the quotas of a region as text, such as '96 vCPUs G on demand, 0 vCPUs P5 spot'.

    If a quota cannot be read, for example without the permission, the text says so and ends there.
    """
    quotas: list[str] = []
    for code, name in QUOTAS.items():
        try:
            answer = await aws.read(
                region, "get_service_quota", service="service-quotas", ServiceCode="ec2", QuotaCode=code
            )
        except AnygpuError as error:
            return ", ".join([*quotas, f"{name} unknown ({error.details.get('vendor_code') or error.code})"])
        quotas.append(f"{answer['Quota']['Value']:g} vCPUs {name}")
    return ", ".join(quotas)


class CostExplorerMeter:
    """Reads the cost of an ended machine from Cost Explorer, once per machine, a day after its end.

    Each request costs a cent, and the data is a day late. The name tag must be activated as a cost allocation
    tag in the account's billing settings.
    """

    def __init__(self, aws: AwsClient, *, delay_s: float) -> None:
        self._aws = aws
        self._delay = timedelta(seconds=delay_s)
        self._costs: dict[str, int | None] = {}

    async def metered_microusd(self, machine: CloudMachine, now: datetime) -> int | None:
        if machine.started_at_ms is None or machine.ended_at_ms is None:
            return None
        ended = datetime.fromtimestamp(machine.ended_at_ms / 1000, UTC)
        if now < ended + self._delay:
            return None
        if machine.id not in self._costs:
            started = datetime.fromtimestamp(machine.started_at_ms / 1000, UTC)
            self._costs[machine.id] = await self._fetch_cost(machine.name, started, ended)
        return self._costs[machine.id]

    async def _fetch_cost(self, name: str, started: datetime, ended: datetime) -> int | None:
        days = {"Start": f"{started:%Y-%m-%d}", "End": f"{ended + timedelta(days=1):%Y-%m-%d}"}
        compute = {"Dimensions": {"Key": "SERVICE", "Values": [COMPUTE_SERVICE]}}
        tagged = {"Tags": {"Key": NAME_TAG, "Values": [name]}}
        answer = await self._aws.read(
            COST_REGION,
            "get_cost_and_usage",
            service="ce",
            TimePeriod=days,
            Granularity="DAILY",
            Metrics=["UnblendedCost"],
            Filter={"And": [tagged, compute]},
        )
        amounts = [
            float(day["Total"]["UnblendedCost"]["Amount"]) for day in answer["ResultsByTime"] if day["Total"]
        ]
        return round(sum(amounts) * MICROUSD) if any(amounts) else None


NAMED = {"Name": "tag-key", "Values": [NAME_TAG]}
AVAILABLE = {"Name": "status", "Values": ["available"]}
REMOVE_CALLS = {
    "disk": ("delete_volume", "VolumeId"),
    "address": ("release_address", "AllocationId"),
    "key": ("delete_key_pair", "KeyName"),
}


async def list_leftovers(aws: AwsClient, region: str) -> list[Leftover]:
    disks = [v async for v in aws.pages(region, "describe_volumes", "Volumes", Filters=[NAMED, AVAILABLE])]
    addresses = (await aws.read(region, "describe_addresses", Filters=[NAMED]))["Addresses"]
    keys = (await aws.read(region, "describe_key_pairs", Filters=[NAMED]))["KeyPairs"]
    return [
        *(Leftover(kind="disk", id=v["VolumeId"], name=name_of(v), region=region) for v in disks),
        *(
            Leftover(kind="address", id=a["AllocationId"], name=name_of(a), region=region)
            for a in addresses
            if not a.get("AssociationId")
        ),
        *(Leftover(kind="key", id=k["KeyName"], name=name_of(k), region=region) for k in keys),
    ]


async def remove_leftover(aws: AwsClient, leftover: Leftover) -> None:
    operation, field = REMOVE_CALLS[leftover.kind]
    with contextlib.suppress(ResourceNotFound):
        await aws.call(leftover.region, operation, **{field: leftover.id})
