"""The services beside EC2 that a careful customer asks: STS for who it is, Service Quotas for how much it may."""

from collections.abc import Callable, Mapping
from typing import Any

from anygpu.testing.cloud.dialects.ec2.account import Region
from anygpu.testing.cloud.dialects.ec2.costs import get_cost_and_usage
from anygpu.testing.cloud.dialects.ec2.failure import Failure
from anygpu.testing.cloud.dialects.ec2.goods import ACCOUNT, VENDOR
from anygpu.testing.cloud.dialects.ec2.wire import xml

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


def get_service_quota(region: Region, asked: dict[str, Any]) -> dict[str, Any]:
    code = asked.get("QuotaCode", "")
    if asked.get("ServiceCode") != "ec2" or code not in QUOTAS:
        raise Failure(
            "NoSuchResourceException", f"The request failed because the quota {code} does not exist."
        )
    return {"Quota": _quota(region, code)}


def list_service_quotas(region: Region, asked: dict[str, Any]) -> dict[str, Any]:
    return {"Quotas": [_quota(region, code) for code in QUOTAS] if asked.get("ServiceCode") == "ec2" else []}


def _quota(region: Region, code: str) -> dict[str, Any]:
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


JSON_TARGETS: Mapping[str, Callable[[Region, dict[str, Any]], dict[str, Any]]] = {
    "GetServiceQuota": get_service_quota,
    "ListServiceQuotas": list_service_quotas,
    "GetCostAndUsage": get_cost_and_usage,
}
