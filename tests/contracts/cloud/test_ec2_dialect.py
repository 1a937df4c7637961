"""A plain boto3 script against `anygpu cloud-sim`: it cannot tell that this is not EC2."""

import asyncio
import datetime as dt
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import asyncssh
import boto3
import httpx
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, ConnectionClosedError, EndpointConnectionError, ReadTimeoutError

KEY_ID, SECRET = "AKIASIMULATED0000000", "simulated"
MINE = asyncssh.generate_private_key("ssh-ed25519")
ONCE = Config(retries={"total_max_attempts": 1}, read_timeout=5)
GPU_IMAGE = "Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 22.04)*"


@dataclass(frozen=True)
class Running:
    """The simulator as another process, and boto3 clients for it."""

    endpoint: str
    control: str

    def client(
        self, service: str = "ec2", *, region: str = "us-west-2", key: str = KEY_ID, secret: str = SECRET
    ) -> Any:
        return _client(self.endpoint, service, region, key, secret)

    def post(self, path: str, **body: Any) -> Any:
        answer = httpx.post(f"{self.control}/{path}", json=body)
        assert answer.status_code < 300, answer.text
        return answer.json()

    def get(self, path: str) -> Any:
        return httpx.get(f"{self.control}/{path}").json()

    def until(self, id: str, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        end = time.monotonic() + 10
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


@pytest.fixture(scope="module")
def sim() -> Iterator[Running]:
    command = [sys.executable, "-m", "anygpu.cli.main", "cloud-sim", "--json", "--boot", "200ms"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    told = json.loads(process.stdout.readline())
    yield Running(told["endpoints"]["ec2"], told["control"])
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == 0
    process.stdout.close()


@pytest.fixture(autouse=True)
def nothing_left_over(sim: Running) -> Iterator[None]:
    yield
    httpx.delete(f"{sim.control}/faults")
    for each in sim.get("instances"):
        if each["state"] not in ("ending", "ended"):
            sim.post(f"end/{each['id']}")


@pytest.fixture(scope="module")
def key_name(sim: Running) -> str:
    sim.client().import_key_pair(KeyName="mine", PublicKeyMaterial=MINE.export_public_key())
    return "mine"


@pytest.fixture(scope="module")
def image(sim: Running) -> str:
    images = sim.client().describe_images(
        Owners=["amazon"], Filters=[{"Name": "name", "Values": [GPU_IMAGE]}]
    )
    newest = max(images["Images"], key=lambda each: str(each["CreationDate"]))
    return str(newest["ImageId"])


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


async def test_a_script_runs_an_instance_trusts_its_console_logs_in_and_terminates_it(
    sim: Running, key_name: str, image: str
) -> None:
    ec2 = sim.client()
    told = order(image, "walk", KeyName=key_name, UserData="#!/bin/sh\necho started > mark\n")
    id = (await asyncio.to_thread(ec2.run_instances, **told))["Instances"][0]["InstanceId"]
    await asyncio.to_thread(sim.until, id, lambda each: each["booted_at_ms"] is not None)
    by_name = [
        {"Name": "tag:anygpu-name", "Values": ["walk"]},
        {"Name": "instance-state-name", "Values": ["running"]},
    ]
    [reservation] = ec2.describe_instances(Filters=by_name)["Reservations"]
    address = reservation["Instances"][0]["PublicIpAddress"]
    console = ec2.get_console_output(InstanceId=id, Latest=True)["Output"]
    host_key = console.split("-----BEGIN SSH HOST KEY KEYS-----")[1].split("-----END")[0].strip()
    hosts = asyncssh.import_known_hosts(f"[{address}]:2222 {host_key}\n")
    connect = asyncssh.connect(
        address, 2222, username="ubuntu", client_keys=[MINE], known_hosts=hosts, config=None
    )
    async with connect as shell:
        assert (await shell.run("sleep 0.1; cat mark; basename $HOME")).stdout == "started\nhome\n"
    [ending] = ec2.terminate_instances(InstanceIds=[id])["TerminatingInstances"]
    assert (ending["PreviousState"]["Name"], ending["CurrentState"]["Name"]) == ("running", "shutting-down")
    await asyncio.to_thread(sim.until, id, lambda each: each["state"] == "ended")
    found = shown(ec2, id)
    assert found["State"]["Name"] == "terminated"
    assert found["StateReason"]["Code"] == "Client.UserInitiatedShutdown"
    ended = dt.datetime.strptime(found["StateTransitionReason"], "User initiated (%Y-%m-%d %H:%M:%S %Z)")
    assert abs(ended - dt.datetime.now(dt.UTC).replace(tzinfo=None)) < dt.timedelta(seconds=30)
    assert ec2.describe_volumes(Filters=[{"Name": "tag:anygpu-name", "Values": ["walk"]}])["Volumes"] == []


def test_a_client_token_makes_one_instance_and_keeps_other_parameters_out(sim: Running, image: str) -> None:
    ec2, told = sim.client(), order(image, "token", ClientToken="once")
    ids = {ec2.run_instances(**told)["Instances"][0]["InstanceId"] for _ in range(2)}
    assert len(ids) == 1
    with pytest.raises(ClientError, match="IdempotentParameterMismatch"):
        ec2.run_instances(**{**told, "InstanceType": "g6.xlarge"})


def test_a_spot_instance_that_is_taken_says_so_in_ec2s_words(sim: Running, image: str) -> None:
    ec2 = sim.client()
    id = ec2.run_instances(**order(image, "spot", **SPOT))["Instances"][0]["InstanceId"]
    request = shown(ec2, id)["SpotInstanceRequestId"]
    assert shown(ec2, id)["InstanceLifecycle"] == "spot"
    sim.post(f"preempt/{id}", notice_s=0)
    sim.until(id, lambda each: each["state"] == "ended")
    assert shown(ec2, id)["StateReason"]["Code"] == "Server.SpotInstanceTermination"
    assert shown(ec2, id)["StateTransitionReason"].startswith("Service initiated (")
    [told] = ec2.describe_spot_instance_requests(SpotInstanceRequestIds=[request])["SpotInstanceRequests"]
    assert (told["State"], told["Status"]["Code"]) == ("closed", "instance-terminated-no-capacity")


def test_lists_come_in_pages(sim: Running, image: str) -> None:
    ec2 = sim.client(region="eu-central-1")
    ids = {ec2.run_instances(**order(image, f"page-{n}"))["Instances"][0]["InstanceId"] for n in range(5)}
    pages = list(ec2.get_paginator("describe_instances").paginate(PaginationConfig={"PageSize": 2}))
    found = [
        each["InstanceId"] for page in pages for held in page["Reservations"] for each in held["Instances"]
    ]
    assert len(pages) == 3
    assert sorted(found) == sorted(ids)


def test_what_there_is_to_rent_can_be_looked_up(sim: Running) -> None:
    ec2 = sim.client()
    [kind] = ec2.describe_instance_types(InstanceTypes=["g5.12xlarge"])["InstanceTypes"]
    assert kind["GpuInfo"]["Gpus"][0] == {
        "Name": "A10G",
        "Manufacturer": "NVIDIA",
        "Count": 4,
        "MemoryInfo": {"SizeInMiB": 24576},
    }
    assert (kind["VCpuInfo"]["DefaultVCpus"], kind["MemoryInfo"]["SizeInMiB"]) == (48, 196_608)
    prices = ec2.describe_spot_price_history(
        InstanceTypes=["g5.xlarge"], ProductDescriptions=["Linux/UNIX"], StartTime=dt.datetime.now(dt.UTC)
    )["SpotPriceHistory"]
    assert {(each["AvailabilityZone"], each["SpotPrice"]) for each in prices} == {
        (f"us-west-2{letter}", "0.493200") for letter in "abc"
    }
    offered = ec2.describe_instance_type_offerings(
        LocationType="availability-zone", Filters=[{"Name": "instance-type", "Values": ["g5.*"]}]
    )["InstanceTypeOfferings"]
    assert len(offered) == 9
    assert {each["RegionName"] for each in ec2.describe_regions()["Regions"]} >= {"us-west-2", "eu-central-1"}
    assert len(ec2.describe_availability_zones()["AvailabilityZones"]) == 3


def test_networks_and_groups_are_there_and_groups_in_use_stay(sim: Running, image: str) -> None:
    ec2 = sim.client()
    [vpc] = ec2.describe_vpcs(Filters=[{"Name": "is-default", "Values": ["true"]}])["Vpcs"]
    subnets = ec2.describe_subnets(Filters=[{"Name": "vpc-id", "Values": [vpc["VpcId"]]}])["Subnets"]
    group = ec2.create_security_group(GroupName="ssh", Description="in", VpcId=vpc["VpcId"])["GroupId"]
    rule = {"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}
    ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[rule])
    with pytest.raises(ClientError, match=r"InvalidGroup\.Duplicate"):
        ec2.create_security_group(GroupName="ssh", Description="in")
    with pytest.raises(ClientError, match=r"InvalidPermission\.Duplicate"):
        ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[rule])
    [found] = ec2.describe_security_groups(GroupIds=[group])["SecurityGroups"]
    assert found["IpPermissions"] == [rule]
    told = order(image, "net", SecurityGroupIds=[group], SubnetId=subnets[1]["SubnetId"])
    instance = ec2.run_instances(**told)["Instances"][0]
    assert instance["Placement"]["AvailabilityZone"] == subnets[1]["AvailabilityZone"]
    with pytest.raises(ClientError, match="DependencyViolation"):
        ec2.delete_security_group(GroupId=group)
    ec2.terminate_instances(InstanceIds=[instance["InstanceId"]])
    ec2.delete_security_group(GroupId=group)
    with pytest.raises(ClientError, match=r"InvalidGroup\.NotFound"):
        ec2.describe_security_groups(GroupIds=[group])


def test_keys_disks_and_addresses_can_be_left_behind_found_and_removed(sim: Running, image: str) -> None:
    ec2, tagged = sim.client(), [{"Name": "tag:anygpu-name", "Values": ["left"]}]
    tags = [{"Key": "anygpu-name", "Value": "left"}]
    ec2.import_key_pair(
        KeyName="left",
        PublicKeyMaterial=MINE.export_public_key(),
        TagSpecifications=[{"ResourceType": "key-pair", "Tags": tags}],
    )
    with pytest.raises(ClientError, match=r"InvalidKeyPair\.Duplicate"):
        ec2.import_key_pair(KeyName="left", PublicKeyMaterial=MINE.export_public_key())
    disk = [{"DeviceName": "/dev/sda1", "Ebs": {"VolumeSize": 50, "DeleteOnTermination": False}}]
    id = ec2.run_instances(**order(image, "left", BlockDeviceMappings=disk))["Instances"][0]["InstanceId"]
    [volume] = ec2.describe_volumes(Filters=tagged)["Volumes"]
    assert (volume["Size"], volume["State"]) == (50, "in-use")
    with pytest.raises(ClientError, match="VolumeInUse"):
        ec2.delete_volume(VolumeId=volume["VolumeId"])
    ec2.terminate_instances(InstanceIds=[id])
    sim.until(id, lambda each: each["state"] == "ended")
    assert ec2.describe_volumes(Filters=tagged)["Volumes"][0]["State"] == "available"
    ec2.delete_volume(VolumeId=volume["VolumeId"])
    assert [each["KeyName"] for each in ec2.describe_key_pairs(Filters=tagged)["KeyPairs"]] == ["left"]
    ec2.delete_key_pair(KeyName="left")
    ec2.delete_key_pair(KeyName="left")
    address = ec2.allocate_address(Domain="vpc")
    assert [each["PublicIp"] for each in ec2.describe_addresses()["Addresses"]] == [address["PublicIp"]]
    ec2.release_address(AllocationId=address["AllocationId"])
    assert ec2.describe_addresses()["Addresses"] == []


def test_a_capacity_reservation_can_be_made_and_launched_into(sim: Running, image: str) -> None:
    ec2 = sim.client()
    made = ec2.create_capacity_reservation(
        InstanceType="p5.4xlarge",
        InstancePlatform="Linux/UNIX",
        AvailabilityZone="us-west-2b",
        InstanceCount=1,
    )["CapacityReservation"]["CapacityReservationId"]
    target = {"CapacityReservationTarget": {"CapacityReservationId": made}}
    told = order(image, "cr", CapacityReservationSpecification=target) | {"InstanceType": "p5.4xlarge"}
    instance = ec2.run_instances(**told)["Instances"][0]
    assert instance["Placement"]["AvailabilityZone"] == "us-west-2b"
    [left] = ec2.describe_capacity_reservations(CapacityReservationIds=[made])["CapacityReservations"]
    assert (left["TotalInstanceCount"], left["AvailableInstanceCount"]) == (1, 0)


def test_the_meter_can_be_read_through_cost_explorer(sim: Running, image: str) -> None:
    ec2, costs = sim.client(), sim.client("ce", region="us-east-1")
    id = ec2.run_instances(**order(image, "cost"))["Instances"][0]["InstanceId"]
    ec2.terminate_instances(InstanceIds=[id])
    today = dt.datetime.now(dt.UTC).date()
    asked = {
        "TimePeriod": {"Start": str(today - dt.timedelta(days=1)), "End": str(today + dt.timedelta(days=2))},
        "Granularity": "MONTHLY",
        "Metrics": ["UnblendedCost"],
    }
    by_name = {"Tags": {"Key": "anygpu-name", "Values": ["cost"]}}
    [month] = costs.get_cost_and_usage(**asked, Filter=by_name)["ResultsByTime"]
    assert float(month["Total"]["UnblendedCost"]["Amount"]) == pytest.approx(1.006 * 60 / 3600, abs=1e-6)
    sim.post("meter", factor=2)
    grouped = costs.get_cost_and_usage(**asked, GroupBy=[{"Type": "TAG", "Key": "anygpu-name"}])[
        "ResultsByTime"
    ]
    sim.post("meter", factor=1)
    amounts = {each["Keys"][0]: each["Metrics"]["UnblendedCost"]["Amount"] for each in grouped[0]["Groups"]}
    assert float(amounts["anygpu-name$cost"]) == pytest.approx(2 * 1.006 * 60 / 3600, abs=2e-6)


def test_who_one_is_and_how_much_one_may_can_be_asked(sim: Running) -> None:
    assert sim.client("sts").get_caller_identity()["Account"] == "123456789012"
    quota = sim.client("service-quotas").get_service_quota(ServiceCode="ec2", QuotaCode="L-DB2E81BA")["Quota"]
    assert quota["Value"] == 4096


@pytest.mark.parametrize(("key", "secret"), [("AKIANOBODY", SECRET), (KEY_ID, "guessed")])
def test_a_wrong_key_and_a_wrong_secret_are_refused(sim: Running, key: str, secret: str) -> None:
    with pytest.raises(ClientError, match="AuthFailure"):
        sim.client(key=key, secret=secret).describe_instances()
    with pytest.raises(ClientError, match="InvalidClientTokenId"):
        sim.client("sts", key=key, secret=secret).get_caller_identity()


def test_a_region_that_is_not_there_is_refused(sim: Running) -> None:
    with pytest.raises(ClientError, match=r"AuthFailure.*valid region"):
        sim.client(region="mars-east-1").describe_instances()


@pytest.mark.parametrize(
    ("fault", "spot", "code"),
    [
        ({"kind": "no_capacity"}, False, "InsufficientInstanceCapacity"),
        ({"kind": "no_capacity", "spot": True}, True, "InsufficientInstanceCapacity"),
        ({"kind": "quota"}, False, "VcpuLimitExceeded"),
        ({"kind": "quota"}, True, "MaxSpotInstanceCountExceeded"),
        ({"kind": "throttle", "operation": "RunInstances"}, False, "RequestLimitExceeded"),
        ({"kind": "bad_credentials"}, False, "AuthFailure"),
    ],
)
def test_faults_speak_ec2s_words(
    sim: Running, image: str, fault: dict[str, Any], spot: bool, code: str
) -> None:
    sim.post("faults", **fault, vendor="ec2", times=1)
    with pytest.raises(ClientError) as refused:
        sim.client().run_instances(**order(image, "fault", **(SPOT if spot else {})))
    assert refused.value.response["Error"]["Code"] == code


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"InstanceType": "g99.huge"}, "InvalidParameterValue"),
        ({"ImageId": "ami-nothing"}, "InvalidAMIID.NotFound"),
        ({"KeyName": "nobody"}, "InvalidKeyPair.NotFound"),
        ({"SecurityGroupIds": ["sg-nothing"]}, "InvalidGroup.NotFound"),
        ({"SubnetId": "subnet-nothing"}, "InvalidSubnetID.NotFound"),
        ({"DryRun": True}, "DryRunOperation"),
    ],
)
def test_what_is_not_there_is_refused_by_name(
    sim: Running, image: str, changes: dict[str, Any], code: str
) -> None:
    with pytest.raises(ClientError) as refused:
        sim.client().run_instances(**(order(image, "bad") | changes))
    assert refused.value.response["Error"]["Code"] == code


def test_an_unknown_instance_is_not_found_and_nothing_else_is_terminated(sim: Running, image: str) -> None:
    ec2 = sim.client()
    id = ec2.run_instances(**order(image, "safe"))["Instances"][0]["InstanceId"]
    with pytest.raises(ClientError, match=r"InvalidInstanceID\.NotFound"):
        ec2.terminate_instances(InstanceIds=[id, "i-00000000000000000"])
    assert shown(ec2, id)["State"]["Name"] in ("pending", "running")


def test_a_lost_answer_leaves_an_instance_that_its_token_finds_again(sim: Running, image: str) -> None:
    ec2, told = sim.client(), order(image, "lost", ClientToken="lost-1")
    sim.post("faults", kind="lost_answer", operation="launch", times=1)
    with pytest.raises((ConnectionClosedError, EndpointConnectionError, ReadTimeoutError)):
        ec2.run_instances(**told)
    [made] = [each for each in sim.get("instances") if each["name"] == "lost"]
    assert ec2.run_instances(**told)["Instances"][0]["InstanceId"] == made["id"]


def test_lists_lag_on_request(sim: Running, image: str) -> None:
    ec2, by_name = sim.client(), [{"Name": "tag:anygpu-name", "Values": ["lag"]}]
    sim.post("faults", kind="listing_lag", seconds=60, vendor="ec2")
    ec2.run_instances(**order(image, "lag"))
    assert ec2.describe_instances(Filters=by_name)["Reservations"] == []
    sim.post("advance", seconds=61)
    assert len(ec2.describe_instances(Filters=by_name)["Reservations"]) == 1


def test_the_books_hold_every_machine_with_what_it_cost(sim: Running, image: str) -> None:
    ec2 = sim.client()
    id = ec2.run_instances(**order(image, "books"))["Instances"][0]["InstanceId"]
    sim.post("advance", seconds=3600)
    ec2.terminate_instances(InstanceIds=[id])
    [entry] = [each for each in sim.get("books") if each["id"] == id]
    assert (entry["vendor"], entry["name"], entry["cause"]) == ("ec2", "books", "user")
    assert entry["billed_s"] in (3600, 3601)
    assert entry["billed_microusd"] == round(1_006_000 * entry["billed_s"] / 3600)


def test_a_wrong_fault_is_refused_with_the_kinds_there_are(sim: Running) -> None:
    answer = httpx.post(f"{sim.control}/faults", json={"kind": "meteor"})
    assert (answer.status_code, "lost_answer" in answer.text) == (422, True)
    assert httpx.post(f"{sim.control}/preempt/i-nothing").status_code == 404
