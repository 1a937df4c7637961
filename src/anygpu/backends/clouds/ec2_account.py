"""Whose account it is, what it may do, and what AWS's own meter says."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from anygpu.backends.clouds.ec2_api import Aws
from anygpu.backends.clouds.ec2_words import NAME_TAG
from anygpu.backends.contract import Account
from anygpu.backends.vm.provider import Machine
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
COMPUTE = "Amazon Elastic Compute Cloud - Compute"
COST_REGION = "us-east-1"  # Cost Explorer has one endpoint


async def account(aws: Aws, regions: Sequence[str]) -> Account:
    """Asks STS who we are and each region whether we may look at it. EC2 has no balance."""
    try:
        identity = await aws.read(regions[0], "get_caller_identity", service="sts")
        for region in regions:
            await aws.read(region, "describe_availability_zones")
    except AnygpuError as error:
        return Account(valid=False, why=str(error))
    quotas = [f"{region}: {await _quotas(aws, region)}" for region in regions]
    return Account(valid=True, why=f"{identity['Arn']} by {aws.who}", quota="; ".join(quotas))


async def _quotas(aws: Aws, region: str) -> str:
    """In words: '96 vCPUs G on demand, 0 vCPUs P5 spot'. Not being allowed to ask is no error."""
    said: list[str] = []
    for code, name in QUOTAS.items():
        try:
            answer = await aws.read(
                region, "get_service_quota", service="service-quotas", ServiceCode="ec2", QuotaCode=code
            )
        except AnygpuError as error:
            return ", ".join([*said, f"{name} unknown ({error.details.get('vendor_code') or error.code})"])
        said.append(f"{answer['Quota']['Value']:g} vCPUs {name}")
    return ", ".join(said)


class Ledger:
    """Cost Explorer, asked once for an attempt: every question costs a cent, and the answer comes a day late.

    The tag must be activated as a cost allocation tag in the account's billing settings, else there is no answer.
    """

    def __init__(self, aws: Aws, *, delay_s: float) -> None:
        self._aws = aws
        self._delay = timedelta(seconds=delay_s)
        self._known: dict[str, int | None] = {}

    async def metered_microusd(self, machine: Machine, now: datetime) -> int | None:
        if machine.started_at_ms is None or machine.ended_at_ms is None:
            return None
        ended = datetime.fromtimestamp(machine.ended_at_ms / 1000, UTC)
        if now < ended + self._delay:
            return None
        if machine.id not in self._known:
            started = datetime.fromtimestamp(machine.started_at_ms / 1000, UTC)
            self._known[machine.id] = await self._asked(machine.name, started, ended)
        return self._known[machine.id]

    async def _asked(self, name: str, started: datetime, ended: datetime) -> int | None:
        days = {"Start": f"{started:%Y-%m-%d}", "End": f"{ended + timedelta(days=1):%Y-%m-%d}"}
        compute = {"Dimensions": {"Key": "SERVICE", "Values": [COMPUTE]}}
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
