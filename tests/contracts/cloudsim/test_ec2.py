"""The simulated EC2 API, used with plain boto3."""

import asyncio
import datetime as dt

import asyncssh
import pytest
from botocore.exceptions import ClientError
from tests.contracts.cloudsim.ec2_client import MINE, SPOT, SimEndpoints, order, shown

pytestmark = pytest.mark.usefixtures("nothing_left_over")


async def test_a_script_runs_an_instance_trusts_its_console_logs_in_and_terminates_it(
    aws: SimEndpoints, key_name: str, image: str
) -> None:
    ec2 = aws.client()
    told = order(image, "walk", KeyName=key_name, UserData="#!/bin/sh\necho started > mark\n")
    id = (await asyncio.to_thread(ec2.run_instances, **told))["Instances"][0]["InstanceId"]
    await asyncio.to_thread(aws.until, id, lambda each: each["booted_at_ms"] is not None)
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
    await asyncio.to_thread(aws.until, id, lambda each: each["state"] == "ended")
    found = shown(ec2, id)
    assert found["State"]["Name"] == "terminated"
    assert found["StateReason"]["Code"] == "Client.UserInitiatedShutdown"
    ended = dt.datetime.strptime(found["StateTransitionReason"], "User initiated (%Y-%m-%d %H:%M:%S %Z)")
    assert abs(ended - dt.datetime.now(dt.UTC).replace(tzinfo=None)) < dt.timedelta(seconds=30)
    assert ec2.describe_volumes(Filters=[{"Name": "tag:anygpu-name", "Values": ["walk"]}])["Volumes"] == []


def test_a_client_token_makes_one_instance_and_rejects_other_parameters(
    aws: SimEndpoints, image: str
) -> None:
    ec2, told = aws.client(), order(image, "token", ClientToken="once")
    ids = {ec2.run_instances(**told)["Instances"][0]["InstanceId"] for _ in range(2)}
    assert len(ids) == 1
    with pytest.raises(ClientError, match="IdempotentParameterMismatch"):
        ec2.run_instances(**{**told, "InstanceType": "g6.xlarge"})


def test_a_preempted_spot_instance_has_ec2s_status(aws: SimEndpoints, image: str) -> None:
    ec2 = aws.client()
    id = ec2.run_instances(**order(image, "spot", **SPOT))["Instances"][0]["InstanceId"]
    request = shown(ec2, id)["SpotInstanceRequestId"]
    assert shown(ec2, id)["InstanceLifecycle"] == "spot"
    aws.post(f"preempt/{id}", notice_s=0)
    aws.until(id, lambda each: each["state"] == "ended")
    assert shown(ec2, id)["StateReason"]["Code"] == "Server.SpotInstanceTermination"
    assert shown(ec2, id)["StateTransitionReason"].startswith("Service initiated (")
    [told] = ec2.describe_spot_instance_requests(SpotInstanceRequestIds=[request])["SpotInstanceRequests"]
    assert (told["State"], told["Status"]["Code"]) == ("closed", "instance-terminated-no-capacity")


def test_lists_come_in_pages(aws: SimEndpoints, image: str) -> None:
    ec2 = aws.client(region="eu-central-1")
    ids = {ec2.run_instances(**order(image, f"page-{n}"))["Instances"][0]["InstanceId"] for n in range(5)}
    pages = list(ec2.get_paginator("describe_instances").paginate(PaginationConfig={"PageSize": 2}))
    found = [
        each["InstanceId"] for page in pages for held in page["Reservations"] for each in held["Instances"]
    ]
    assert len(pages) == 3
    assert sorted(found) == sorted(ids)


def test_regions_types_and_prices_can_be_listed(aws: SimEndpoints) -> None:
    ec2 = aws.client()
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


def test_networks_and_groups_exist_and_groups_in_use_cannot_be_deleted(aws: SimEndpoints, image: str) -> None:
    ec2 = aws.client()
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
    assert found["IpPermissions"] == [{**rule, "UserIdGroupPairs": []}]
    told = order(image, "net", SecurityGroupIds=[group], SubnetId=subnets[1]["SubnetId"])
    instance = ec2.run_instances(**told)["Instances"][0]
    assert instance["Placement"]["AvailabilityZone"] == subnets[1]["AvailabilityZone"]
    with pytest.raises(ClientError, match="DependencyViolation"):
        ec2.delete_security_group(GroupId=group)
    ec2.terminate_instances(InstanceIds=[instance["InstanceId"]])
    ec2.delete_security_group(GroupId=group)
    with pytest.raises(ClientError, match=r"InvalidGroup\.NotFound"):
        ec2.describe_security_groups(GroupIds=[group])


def test_leftover_keys_disks_and_addresses_can_be_found_and_removed(aws: SimEndpoints, image: str) -> None:
    ec2, tagged = aws.client(), [{"Name": "tag:anygpu-name", "Values": ["left"]}]
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
    aws.until(id, lambda each: each["state"] == "ended")
    assert ec2.describe_volumes(Filters=tagged)["Volumes"][0]["State"] == "available"
    ec2.delete_volume(VolumeId=volume["VolumeId"])
    assert [each["KeyName"] for each in ec2.describe_key_pairs(Filters=tagged)["KeyPairs"]] == ["left"]
    ec2.delete_key_pair(KeyName="left")
    ec2.delete_key_pair(KeyName="left")
    address = ec2.allocate_address(Domain="vpc")
    assert [each["PublicIp"] for each in ec2.describe_addresses()["Addresses"]] == [address["PublicIp"]]
    ec2.release_address(AllocationId=address["AllocationId"])
    assert ec2.describe_addresses()["Addresses"] == []


def test_a_capacity_reservation_can_be_made_and_launched_into(aws: SimEndpoints, image: str) -> None:
    ec2 = aws.client()
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


def test_the_meter_can_be_read_through_cost_explorer(aws: SimEndpoints, image: str) -> None:
    ec2, costs = aws.client(), aws.client("ce", region="us-east-1")
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
    aws.post("meter", factor=2)
    grouped = costs.get_cost_and_usage(**asked, GroupBy=[{"Type": "TAG", "Key": "anygpu-name"}])[
        "ResultsByTime"
    ]
    aws.post("meter", factor=1)
    amounts = {each["Keys"][0]: each["Metrics"]["UnblendedCost"]["Amount"] for each in grouped[0]["Groups"]}
    assert float(amounts["anygpu-name$cost"]) == pytest.approx(2 * 1.006 * 60 / 3600, abs=2e-6)
