"""The AWS services besides EC2: STS, Service Quotas, and Cost Explorer, which reports the simulator's bills."""

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


def get_cost_and_usage(region: AwsRegion, request: CostRequest) -> dict[str, Any]:
    metrics = list(request.get("Metrics") or ["UnblendedCost"])
    start, end = request["TimePeriod"]["Start"], request["TimePeriod"]["End"]
    entries = [
        entry
        for entry in region.cloud.billing_entries(VENDOR)
        if start <= _stamp(entry)[: len(start)] < end and _passes(region, entry, request.get("Filter") or {})
    ]
    periods: dict[tuple[str, str], list[BillingEntry]] = defaultdict(list)
    for entry in entries:
        periods[_period(entry, request.get("Granularity", "MONTHLY"))].append(entry)
    results = sorted(periods.items()) or [((start, end), [])]
    return {
        "GroupDefinitions": request.get("GroupBy") or [],
        "ResultsByTime": [
            _result(region, period, in_period, metrics, request) for period, in_period in results
        ],
        "DimensionValueAttributes": [],
    }


def _result(
    region: AwsRegion,
    period: tuple[str, str],
    entries: list[BillingEntry],
    metrics: list[str],
    request: CostRequest,
) -> dict[str, Any]:
    groups: dict[tuple[str, ...], list[BillingEntry]] = defaultdict(list)
    by = request.get("GroupBy") or []
    for entry in entries:
        groups[tuple(_group(region, entry, each) for each in by)].append(entry)
    return {
        "TimePeriod": {"Start": period[0], "End": period[1]},
        "Total": {} if by else _amounts(entries, metrics),
        "Groups": [
            {"Keys": list(keys), "Metrics": _amounts(in_group, metrics)} for keys, in_group in groups.items()
        ]
        if by
        else [],
        "Estimated": any(entry.ended_at_ms is None for entry in entries),
    }


def _amounts(entries: Iterable[BillingEntry], metrics: list[str]) -> dict[str, dict[str, str]]:
    listed = list(entries)
    dollars = f"{sum(entry.billed_microusd for entry in listed) / 1_000_000:.10f}"
    hours = f"{sum(entry.billed_s for entry in listed) / 3600:.10f}"
    return {
        metric: {"Amount": hours, "Unit": "N/A"}
        if metric == "UsageQuantity"
        else {"Amount": dollars, "Unit": "USD"}
        for metric in metrics
    }


def _passes(region: AwsRegion, entry: BillingEntry, condition: CostRequest) -> bool:
    if "And" in condition:
        return all(_passes(region, entry, each) for each in condition["And"])
    if "Or" in condition:
        return any(_passes(region, entry, each) for each in condition["Or"])
    if "Not" in condition:
        return not _passes(region, entry, condition["Not"])
    if "Tags" in condition:
        return _tags(region, entry).get(condition["Tags"]["Key"], "") in condition["Tags"].get("Values", [""])
    if "Dimensions" in condition:
        return _dimension(entry, condition["Dimensions"]["Key"]) in condition["Dimensions"].get("Values", [])
    return True


def _group(region: AwsRegion, entry: BillingEntry, by: CostRequest) -> str:
    if by["Type"] == "TAG":
        return f"{by['Key']}${_tags(region, entry).get(by['Key'], '')}"
    return _dimension(entry, by["Key"])


def _dimension(entry: BillingEntry, key: str) -> str:
    dimensions = {
        "SERVICE": COMPUTE,
        "REGION": entry.region,
        "INSTANCE_TYPE": entry.type,
        "LINKED_ACCOUNT": ACCOUNT,
        "RECORD_TYPE": "Usage",
        "PURCHASE_TYPE": "Spot Instances" if entry.spot else "On Demand Instances",
    }
    if key not in dimensions:
        raise Ec2Error(
            "ValidationException",
            f"The dimension {key} is not simulated. Use one of {', '.join(dimensions)}.",
        )
    return dimensions[key]


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


def get_service_quota(region: AwsRegion, request: dict[str, Any]) -> dict[str, Any]:
    code = request.get("QuotaCode", "")
    if request.get("ServiceCode") != "ec2" or code not in QUOTAS:
        raise Ec2Error(
            "NoSuchResourceException",
            f"There is no quota with the code {code}. ListServiceQuotas lists the codes.",
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
