"""The AWS services besides EC2: STS, Service Quotas, and Cost Explorer on the simulator's bills."""

import datetime as dt
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from anygpu.cloudsim.apis.ec2.account import AwsRegion
from anygpu.cloudsim.apis.ec2.errors import Ec2Error
from anygpu.cloudsim.apis.ec2.instance_types import ACCOUNT, VENDOR
from anygpu.cloudsim.apis.ec2.wire import xml
from anygpu.cloudsim.billing import BillingEntry

CostRequest = Mapping[str, Any]
COMPUTE = "Amazon Elastic Compute Cloud - Compute"


def get_cost_and_usage(region: AwsRegion, asked: CostRequest) -> dict[str, Any]:
    metrics = list(asked.get("Metrics") or ["UnblendedCost"])
    start, end = asked["TimePeriod"]["Start"], asked["TimePeriod"]["End"]
    entries = [
        entry
        for entry in region.cloud.billing_entries(VENDOR)
        if start <= _stamp(entry)[: len(start)] < end and _passes(region, entry, asked.get("Filter") or {})
    ]
    periods: dict[tuple[str, str], list[BillingEntry]] = defaultdict(list)
    for entry in entries:
        periods[_period(entry, asked.get("Granularity", "MONTHLY"))].append(entry)
    found = sorted(periods.items()) or [((start, end), [])]
    return {
        "GroupDefinitions": asked.get("GroupBy") or [],
        "ResultsByTime": [_result(region, period, some, metrics, asked) for period, some in found],
        "DimensionValueAttributes": [],
    }


def _result(
    region: AwsRegion,
    period: tuple[str, str],
    entries: list[BillingEntry],
    metrics: list[str],
    asked: CostRequest,
) -> dict[str, Any]:
    groups: dict[tuple[str, ...], list[BillingEntry]] = defaultdict(list)
    by = asked.get("GroupBy") or []
    for entry in entries:
        groups[tuple(_group(region, entry, each) for each in by)].append(entry)
    return {
        "TimePeriod": {"Start": period[0], "End": period[1]},
        "Total": {} if by else _amounts(entries, metrics),
        "Groups": [{"Keys": list(keys), "Metrics": _amounts(some, metrics)} for keys, some in groups.items()]
        if by
        else [],
        "Estimated": any(entry.ended_at_ms is None for entry in entries),
    }


def _amounts(entries: Iterable[BillingEntry], metrics: list[str]) -> dict[str, dict[str, str]]:
    some = list(entries)
    dollars = f"{sum(entry.billed_microusd for entry in some) / 1_000_000:.10f}"
    hours = f"{sum(entry.billed_s for entry in some) / 3600:.10f}"
    return {
        metric: {"Amount": hours, "Unit": "N/A"}
        if metric == "UsageQuantity"
        else {"Amount": dollars, "Unit": "USD"}
        for metric in metrics
    }


def _passes(region: AwsRegion, entry: BillingEntry, wanted: CostRequest) -> bool:
    if "And" in wanted:
        return all(_passes(region, entry, each) for each in wanted["And"])
    if "Or" in wanted:
        return any(_passes(region, entry, each) for each in wanted["Or"])
    if "Not" in wanted:
        return not _passes(region, entry, wanted["Not"])
    if "Tags" in wanted:
        return _tags(region, entry).get(wanted["Tags"]["Key"], "") in wanted["Tags"].get("Values", [""])
    if "Dimensions" in wanted:
        return _dimension(entry, wanted["Dimensions"]["Key"]) in wanted["Dimensions"].get("Values", [])
    return True


def _group(region: AwsRegion, entry: BillingEntry, by: CostRequest) -> str:
    if by["Type"] == "TAG":
        return f"{by['Key']}${_tags(region, entry).get(by['Key'], '')}"
    return _dimension(entry, by["Key"])


def _dimension(entry: BillingEntry, key: str) -> str:
    known = {
        "SERVICE": COMPUTE,
        "REGION": entry.region,
        "INSTANCE_TYPE": entry.type,
        "LINKED_ACCOUNT": ACCOUNT,
        "RECORD_TYPE": "Usage",
        "PURCHASE_TYPE": "Spot Instances" if entry.spot else "On Demand Instances",
    }
    if key not in known:
        raise Ec2Error(
            "ValidationException", f"The dimension {key} is not known here; there are {', '.join(known)}."
        )
    return known[key]


def _tags(region: AwsRegion, entry: BillingEntry) -> Mapping[str, str]:
    instance = region.cloud.instances.get(entry.id)
    return instance.tags if instance is not None else {}


def _stamp(entry: BillingEntry) -> str:
    return dt.datetime.fromtimestamp(entry.started_at_ms / 1000, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _period(entry: BillingEntry, granularity: str) -> tuple[str, str]:
    day = dt.datetime.fromtimestamp(entry.started_at_ms / 1000, dt.UTC).date()
    if granularity == "HOURLY":
        hour = _stamp(entry)[:13]
        return f"{hour}:00:00Z", f"{hour}:59:59Z"
    if granularity == "DAILY":
        return day.isoformat(), (day + dt.timedelta(days=1)).isoformat()
    first = day.replace(day=1)
    return first.isoformat(), (first + dt.timedelta(days=32)).replace(day=1).isoformat()


# Service Quotas' own codes for EC2's vCPU limits.
QUOTAS = {
    "L-1216C47A": "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances",
    "L-DB2E81BA": "Running On-Demand G and VT instances",
    "L-417A185B": "Running On-Demand P instances",
    "L-34B43A08": "All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests",
    "L-3819A6DF": "All G and VT Spot Instance Requests",
    "L-7212CCBC": "All P4, P3 and P2 Spot Instance Requests",
    "L-C4BD4855": "All P5 Spot Instance Requests",
}


def caller_identity(request_id: str) -> str:
    who = {
        "Arn": f"arn:aws:iam::{ACCOUNT}:user/simulated",
        "UserId": "AIDASIMULATED0000000",
        "Account": ACCOUNT,
    }
    inner = xml("GetCallerIdentityResult", who) + xml("ResponseMetadata", {"RequestId": request_id})
    space = "https://sts.amazonaws.com/doc/2011-06-15/"
    return f'<GetCallerIdentityResponse xmlns="{space}">{inner}</GetCallerIdentityResponse>'


def get_service_quota(region: AwsRegion, asked: dict[str, Any]) -> dict[str, Any]:
    code = asked.get("QuotaCode", "")
    if asked.get("ServiceCode") != "ec2" or code not in QUOTAS:
        raise Ec2Error(
            "NoSuchResourceException", f"The request failed because the quota {code} does not exist."
        )
    return {"Quota": _quota(region, code)}


def _quota(region: AwsRegion, code: str) -> dict[str, Any]:
    return {
        "ServiceCode": "ec2",
        "ServiceName": "Amazon Elastic Compute Cloud (Amazon EC2)",
        "QuotaArn": f"arn:aws:servicequotas:{region.name}:{ACCOUNT}:ec2/{code}",
        "QuotaCode": code,
        "QuotaName": QUOTAS[code],
        "Value": float(region.cloud.limits.vcpus.get(VENDOR.name, VENDOR.vcpu_limit)),
        "Unit": "None",
        "Adjustable": True,
        "GlobalQuota": False,
    }


JSON_TARGETS: Mapping[str, Callable[[AwsRegion, dict[str, Any]], dict[str, Any]]] = {
    "GetServiceQuota": get_service_quota,
    "GetCostAndUsage": get_cost_and_usage,
}
