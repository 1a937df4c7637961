"""EC2's adapter on moto's server: another reading of the same API, for what the simulator does not rent out."""

import logging
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer
from tests.contracts.backends.provider_contract import NAME, order

from anygpu.backends.clouds.ec2 import adapter as ec2
from anygpu.backends.vm.provider import PowerState
from anygpu.errors import LaunchRefused
from anygpu.spec.sections import Gpu, Resources

REGION = "us-east-1"
ONE_GPU = Resources(gpu=Gpu(count=1))


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def aws(endpoint: str) -> Iterator[Any]:
    client = boto3.client("ec2", region_name=REGION, endpoint_url=endpoint)
    yield client
    client.close()


@pytest.fixture(scope="module")
def image(endpoint: str) -> str:
    client = boto3.client("ec2", region_name=REGION, endpoint_url=endpoint)
    found = client.describe_images(Filters=[{"Name": "name", "Values": ["amzn2-ami-hvm-2.0*"]}])["Images"]
    client.close()
    return str(found[0]["ImageId"])


@pytest.fixture
async def provider(endpoint: str, image: str) -> AsyncIterator[ec2.Ec2Provider]:
    made: Any = await ec2.connect(ec2.Ec2Options(endpoint=endpoint, regions=(REGION,), image=image))
    yield made
    for machine in await made.machines():
        await made.destroy(machine)
    await made.close()


async def test_a_machine_is_made_listed_and_ended_with_its_disk(provider: ec2.Ec2Provider, aws: Any) -> None:
    offer = next(o for o in await provider.offers(ONE_GPU) if o.name == "g5.xlarge" and not o.interruptible)
    made = await provider.create(order(offer))
    machine = next(m for m in await provider.machines() if m.id == made.id)
    assert (machine.name, machine.power) == (NAME, PowerState.RUNNING)
    assert machine.address
    assert machine.started_at_ms
    disks = aws.describe_volumes(Filters=[{"Name": "tag:anygpu-name", "Values": [NAME]}])["Volumes"]
    assert len(disks) == 1
    await provider.destroy(machine)
    ended = next(m for m in await provider.machines() if m.id == made.id)
    assert ended.power is PowerState.ENDED
    assert list(await provider.leftovers()) == []


async def test_the_group_is_made_once_and_lets_in_ssh_and_its_own_machines(
    provider: ec2.Ec2Provider, aws: Any
) -> None:
    offer = next(iter(await provider.offers(ONE_GPU)))
    for number in (1, 2):
        await provider.create(order(offer, name=f"{NAME}{number}"))
    (group,) = aws.describe_security_groups(Filters=[{"Name": "group-name", "Values": ["anygpu-ssh"]}])[
        "SecurityGroups"
    ]
    ssh, own = sorted(group["IpPermissions"], key=lambda rule: rule["IpProtocol"], reverse=True)
    assert (ssh["IpProtocol"], ssh["FromPort"], ssh["ToPort"]) == ("tcp", 22, 22)
    assert (own["IpProtocol"], own["IpRanges"]) == ("-1", [])
    assert [pair["GroupId"] for pair in own["UserIdGroupPairs"]] == [group["GroupId"]]


async def test_disks_addresses_and_keys_that_carry_our_tag_are_found_and_removed(
    provider: ec2.Ec2Provider, aws: Any
) -> None:
    tags = [{"Key": "anygpu-name", "Value": NAME}]
    zone = f"{REGION}a"
    aws.create_volume(
        Size=8, AvailabilityZone=zone, TagSpecifications=[{"ResourceType": "volume", "Tags": tags}]
    )
    aws.create_volume(Size=8, AvailabilityZone=zone)  # somebody else's
    aws.allocate_address(TagSpecifications=[{"ResourceType": "elastic-ip", "Tags": tags}])
    aws.create_key_pair(KeyName=NAME, TagSpecifications=[{"ResourceType": "key-pair", "Tags": tags}])
    found = await provider.leftovers()
    assert [(left.kind, left.name) for left in found] == [("disk", NAME), ("address", NAME), ("key", NAME)]
    for left in found:
        await provider.remove(left)
    await provider.remove(found[0])  # twice is the same as once
    assert list(await provider.leftovers()) == []


async def test_a_region_without_a_default_network_says_what_to_set(endpoint: str, image: str) -> None:
    region = "eu-west-3"
    client = boto3.client("ec2", region_name=region, endpoint_url=endpoint)
    for subnet in client.describe_subnets()["Subnets"]:
        client.delete_subnet(SubnetId=subnet["SubnetId"])
    for vpc in client.describe_vpcs()["Vpcs"]:
        client.delete_vpc(VpcId=vpc["VpcId"])
    client.close()
    provider: Any = await ec2.connect(ec2.Ec2Options(endpoint=endpoint, regions=(region,), image=image))
    offer = next(iter(await provider.offers(ONE_GPU)))
    with pytest.raises(LaunchRefused, match="no default VPC"):
        await provider.create(order(offer))
    await provider.close()


def test_a_spot_price_of_an_hour_ago_is_not_mixed_with_todays() -> None:
    from anygpu.backends.clouds.ec2.offers import _newest_prices

    now = datetime.now(UTC)
    old = {
        "InstanceType": "g5.xlarge",
        "AvailabilityZone": "a",
        "SpotPrice": "9",
        "Timestamp": now - timedelta(1),
    }
    new = {**old, "SpotPrice": "0.5", "Timestamp": now}
    assert _newest_prices([new, old]) == {("g5.xlarge", "a"): 500_000}
