"""Cost Explorer, fed by the simulator's own books. A machine's cost is shown on the day it started."""

import datetime as dt
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from anygpu.testing.cloud.books import Entry
from anygpu.testing.cloud.dialects.ec2.account import Region
from anygpu.testing.cloud.dialects.ec2.failure import Failure
from anygpu.testing.cloud.dialects.ec2.goods import ACCOUNT, VENDOR

Asked = Mapping[str, Any]
COMPUTE = "Amazon Elastic Compute Cloud - Compute"


def get_cost_and_usage(region: Region, asked: Asked) -> dict[str, Any]:
    metrics = list(asked.get("Metrics") or ["UnblendedCost"])
    start, end = asked["TimePeriod"]["Start"], asked["TimePeriod"]["End"]
    entries = [
        entry
        for entry in region.cloud.entries(VENDOR)
        if start <= _stamp(entry)[: len(start)] < end and _passes(region, entry, asked.get("Filter") or {})
    ]
    periods: dict[tuple[str, str], list[Entry]] = defaultdict(list)
    for entry in entries:
        periods[_period(entry, asked.get("Granularity", "MONTHLY"))].append(entry)
    found = sorted(periods.items()) or [((start, end), [])]
    return {
        "GroupDefinitions": asked.get("GroupBy") or [],
        "ResultsByTime": [_result(region, period, some, metrics, asked) for period, some in found],
        "DimensionValueAttributes": [],
    }


def _result(
    region: Region, period: tuple[str, str], entries: list[Entry], metrics: list[str], asked: Asked
) -> dict[str, Any]:
    groups: dict[tuple[str, ...], list[Entry]] = defaultdict(list)
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


def _amounts(entries: Iterable[Entry], metrics: list[str]) -> dict[str, dict[str, str]]:
    some = list(entries)
    dollars = f"{sum(entry.billed_microusd for entry in some) / 1_000_000:.10f}"
    hours = f"{sum(entry.billed_s for entry in some) / 3600:.10f}"
    return {
        metric: {"Amount": hours, "Unit": "N/A"}
        if metric == "UsageQuantity"
        else {"Amount": dollars, "Unit": "USD"}
        for metric in metrics
    }


def _passes(region: Region, entry: Entry, wanted: Asked) -> bool:
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


def _group(region: Region, entry: Entry, by: Asked) -> str:
    if by["Type"] == "TAG":
        return f"{by['Key']}${_tags(region, entry).get(by['Key'], '')}"
    return _dimension(entry, by["Key"])


def _dimension(entry: Entry, key: str) -> str:
    known = {
        "SERVICE": COMPUTE,
        "REGION": entry.region,
        "INSTANCE_TYPE": entry.type,
        "LINKED_ACCOUNT": ACCOUNT,
        "RECORD_TYPE": "Usage",
        "PURCHASE_TYPE": "Spot Instances" if entry.spot else "On Demand Instances",
    }
    if key not in known:
        raise Failure(
            "ValidationException", f"The dimension {key} is not known here; there are {', '.join(known)}."
        )
    return known[key]


def _tags(region: Region, entry: Entry) -> Mapping[str, str]:
    instance = region.cloud.instances.get(entry.id)
    return instance.tags if instance is not None else {}


def _stamp(entry: Entry) -> str:
    return dt.datetime.fromtimestamp(entry.started_at_ms / 1000, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _period(entry: Entry, granularity: str) -> tuple[str, str]:
    day = dt.datetime.fromtimestamp(entry.started_at_ms / 1000, dt.UTC).date()
    if granularity == "HOURLY":
        hour = _stamp(entry)[:13]
        return f"{hour}:00:00Z", f"{hour}:59:59Z"
    if granularity == "DAILY":
        return day.isoformat(), (day + dt.timedelta(days=1)).isoformat()
    first = day.replace(day=1)
    return first.isoformat(), (first + dt.timedelta(days=32)).replace(day=1).isoformat()
