"""Offers and prices of an EC2 region."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import boto3
from botocore.stub import Stubber

from anygpu.backends.clouds.ec2.api import AwsClient
from anygpu.backends.clouds.ec2.offers import (
    CapacityReservation,
    RegionOffers,
    at_marginal_price,
    on_demand_microusd,
    reservation_offer,
)
from anygpu.events.offers import Offer
from anygpu.spec.sections import Gpu, Resources

REGION = "us-west-2"

OFFER = Offer(backend="aws", name="g5.xlarge", region=REGION, gpu_count=1, price_microusd_per_hour=1_006_000)


def instance(**said: Any) -> dict[str, Any]:
    return {
        "InstanceId": "i-1",
        "State": {"Name": "running"},
        "PublicIpAddress": "192.0.2.1",
        "PrivateIpAddress": "10.0.0.1",
        "LaunchTime": datetime(2026, 1, 31, 12, tzinfo=UTC),
        "Tags": [{"Key": "Name", "Value": "x"}, {"Key": "anygpu-name", "Value": "anygpu-1-1-mark"}],
        **said,
    }


def test_prices_are_those_of_the_region_and_not_guessed() -> None:
    assert on_demand_microusd("g5.xlarge", "us-west-2") == 1_006_000
    assert on_demand_microusd("g4dn.xlarge", "eu-central-1") == 658_000
    assert on_demand_microusd("t3.medium", "eu-central-1") is None
    assert on_demand_microusd("z9.large", "us-west-2") is None


def test_a_capacity_block_is_over_half_an_hour_before_it_ends() -> None:
    now = datetime(2026, 1, 31, 12, tzinfo=UTC)
    block = CapacityReservation(
        id="cr-1", type="p5.48xlarge", zone="z", free=0, block=True, ends_at=now.replace(hour=14)
    )
    offer = reservation_offer(OFFER, block, now)
    assert (offer.max_run_s, offer.price_microusd_per_hour, offer.free) == (5400, 0, 0)
    assert offer.wait_reason == "no instance of capacity reservation cr-1 is free"


async def test_unused_reserved_instances_lower_the_price_of_their_type() -> None:
    client = a_client()
    reserved = {"InstanceType": "g5.xlarge", "InstanceCount": 3, "UsagePrice": 0.01, "State": "active"}
    used = [{"InstanceType": "g5.xlarge"}, {"InstanceType": "g5.xlarge", "InstanceLifecycle": "spot"}]
    aws = AwsClient(keys=("id", "secret", ""))
    aws._clients["ec2", REGION] = client
    with Stubber(client) as stubber:
        stubber.add_response("describe_reserved_instances", {"ReservedInstances": [reserved]})
        stubber.add_response("describe_instances", {"Reservations": [{"Instances": used}]})
        unused = await RegionOffers(aws, REGION, disk_gib=100).unused_commitments()
    await aws.close()
    cheap = at_marginal_price(OFFER, unused)
    assert (cheap.free, cheap.price_microusd_per_hour) == (2, 10_000)
    assert at_marginal_price(replace(OFFER, name="p5.4xlarge"), unused).price_microusd_per_hour == 1_006_000


async def test_types_with_too_few_gpus_and_bare_metal_are_not_offered() -> None:
    client = a_client()
    infos = [a_type("g5.xlarge", 1), a_type("g5.12xlarge", 4), a_type("g4dn.metal", 8, metal=True)]
    aws = AwsClient(keys=("id", "secret", ""))
    aws._clients["ec2", REGION] = client
    with Stubber(client) as stubber:
        stubber.add_response("describe_instance_types", {"InstanceTypes": infos})
        found = await RegionOffers(aws, REGION, disk_gib=100).instance_types(Resources(gpu=Gpu(count=2)), ())
    await aws.close()
    assert [offer.name for offer in found] == ["g5.12xlarge"]


def a_type(name: str, gpus: int, *, metal: bool = False) -> dict[str, Any]:
    gpu = {"Name": "A10G", "Manufacturer": "NVIDIA", "Count": gpus, "MemoryInfo": {"SizeInMiB": 24576}}
    return {
        "InstanceType": name,
        "BareMetal": metal,
        "VCpuInfo": {"DefaultVCpus": 4},
        "MemoryInfo": {"SizeInMiB": 16384},
        "GpuInfo": {"Gpus": [gpu]},
    }


def a_client() -> Any:
    return boto3.client("ec2", region_name=REGION, aws_access_key_id="id", aws_secret_access_key="secret")
