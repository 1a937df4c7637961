"""The services beside EC2 that a careful customer asks: STS, Service Quotas, Cost Explorer."""

from collections.abc import Callable, Mapping
from typing import Any

from anygpu.testing.cloud.dialects.ec2.account import Region
from anygpu.testing.cloud.dialects.ec2.goods import ACCOUNT
from anygpu.testing.cloud.dialects.ec2.wire import xml


def caller_identity(request_id: str) -> str:
    who = {
        "Arn": f"arn:aws:iam::{ACCOUNT}:user/simulated",
        "UserId": "AIDASIMULATED0000000",
        "Account": ACCOUNT,
    }
    inner = xml("GetCallerIdentityResult", who) + xml("ResponseMetadata", {"RequestId": request_id})
    space = "https://sts.amazonaws.com/doc/2011-06-15/"
    return f'<GetCallerIdentityResponse xmlns="{space}">{inner}</GetCallerIdentityResponse>'


JSON_TARGETS: Mapping[str, Callable[[Region, dict[str, Any]], dict[str, Any]]] = {}
