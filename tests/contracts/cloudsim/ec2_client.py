"""Clients of an `anygpu cloud-sim` process: boto3, and the simulator's own API."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import asyncssh
import boto3
import httpx
from botocore.config import Config

KEY_ID, SECRET = "AKIASIMULATED0000000", "simulated"
MINE = asyncssh.generate_private_key("ssh-ed25519")
HTTP = httpx.Client(trust_env=False, verify=False)
ONCE = Config(retries={"total_max_attempts": 1}, read_timeout=5)
GPU_IMAGE = "Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 22.04)*"


@dataclass(frozen=True)
class SimEndpoints:
    """The addresses of a running simulator."""

    endpoint: str
    control: str

    def client(
        self, service: str = "ec2", *, region: str = "us-west-2", key: str = KEY_ID, secret: str = SECRET
    ) -> Any:
        return _client(self.endpoint, service, region, key, secret)

    def post(self, path: str, **body: Any) -> Any:
        answer = HTTP.post(f"{self.control}/{path}", json=body)
        assert answer.status_code < 300, answer.text
        return answer.json()

    def get(self, path: str) -> Any:
        return HTTP.get(f"{self.control}/{path}").json()

    def until(self, id: str, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        end = time.monotonic() + 60
        while time.monotonic() < end:
            [found] = [each for each in self.get("instances") if each["id"] == id]
            if holds(found):
                return dict(found)
            time.sleep(0.02)
        raise AssertionError(f"it never came to that: {found}")


@cache
def _client(endpoint: str, service: str, region: str, key: str, secret: str) -> Any:
    return boto3.client(  # type: ignore[call-overload]
        service,
        endpoint_url=endpoint,
        region_name=region,
        aws_access_key_id=key,
        aws_secret_access_key=secret,
        config=ONCE,
    )


def order(image: str, name: str, **more: Any) -> dict[str, Any]:
    tags = [{"Key": "anygpu-name", "Value": name}]
    return {
        "ImageId": image,
        "InstanceType": "g5.xlarge",
        "MinCount": 1,
        "MaxCount": 1,
        "InstanceInitiatedShutdownBehavior": "terminate",
        "TagSpecifications": [{"ResourceType": kind, "Tags": tags} for kind in ("instance", "volume")],
        **more,
    }


SPOT = {"InstanceMarketOptions": {"MarketType": "spot", "SpotOptions": {"SpotInstanceType": "one-time"}}}


def shown(ec2: Any, id: str) -> dict[str, Any]:
    return dict(ec2.describe_instances(InstanceIds=[id])["Reservations"][0]["Instances"][0])
