"""Translation between EC2 and anygpu."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from anygpu.backends.clouds.ec2 import translate
from anygpu.backends.clouds.ec2.translate import RegionSetup, native_request
from anygpu.backends.vm.provider import MachineOrder, PowerState
from anygpu.events.offers import Offer

REGION = "us-west-2"

OFFER = Offer(backend="aws", name="g5.xlarge", region=REGION, gpu_count=1, price_microusd_per_hour=1_006_000)

SPOT = replace(OFFER, interruptible=True, zone="us-west-2b")

ORDER = MachineOrder(
    name="anygpu-1-1-mark", offer=OFFER, public_key="ssh-ed25519 AAAA a", startup_script="#!/bin/sh\ntrue\n"
)

SITE = RegionSetup(image="ami-1", root_device="/dev/sda1", volume_gib=100, security_group="sg-1")


def test_the_same_order_is_the_same_request_and_carries_its_name_everywhere() -> None:
    sent = native_request(ORDER, SITE)
    assert sent == native_request(ORDER, SITE)
    assert (sent["ClientToken"], sent["MinCount"], sent["MaxCount"]) == (ORDER.name, 1, 1)
    assert sent["InstanceInitiatedShutdownBehavior"] == "terminate"
    assert "KeyName" not in sent
    tags = {spec["ResourceType"]: spec["Tags"][0] for spec in sent["TagSpecifications"]}
    tag = {"Key": "anygpu-name", "Value": ORDER.name}
    assert tags == {"instance": tag, "volume": tag}
    assert "InstanceMarketOptions" not in sent
    assert sent["SecurityGroupIds"] == ["sg-1"]


def test_a_spot_request_is_one_time_in_its_zone_without_a_maximum_price() -> None:
    sent = native_request(replace(ORDER, offer=SPOT), SITE)
    assert sent["Placement"] == {"AvailabilityZone": "us-west-2b"}
    market = sent["InstanceMarketOptions"]
    assert (market["MarketType"], market["SpotOptions"]["SpotInstanceType"]) == ("spot", "one-time")
    assert "MaxPrice" not in market["SpotOptions"]
    assert [spec["ResourceType"] for spec in sent["TagSpecifications"]][-1] == "spot-instances-request"


def test_a_machine_in_a_configured_subnet_has_its_group_on_the_interface() -> None:
    sent = native_request(ORDER, replace(SITE, subnet="subnet-1", public_address=False))
    (card,) = sent["NetworkInterfaces"]
    assert (card["SubnetId"], card["Groups"], card["AssociatePublicIpAddress"]) == (
        "subnet-1",
        ["sg-1"],
        False,
    )
    assert "SecurityGroupIds" not in sent


def test_a_capacity_block_is_a_market_of_its_own() -> None:
    sent = native_request(ORDER, replace(SITE, reservation="cr-1", block=True))
    target = sent["CapacityReservationSpecification"]["CapacityReservationTarget"]
    assert target == {"CapacityReservationId": "cr-1"}
    assert sent["InstanceMarketOptions"] == {"MarketType": "capacity-block"}


@pytest.mark.parametrize(
    "site", [SITE, replace(SITE, subnet="subnet-1"), replace(SITE, reservation="cr-1", block=True)]
)
@pytest.mark.parametrize("offer", [OFFER, SPOT])
def test_botocores_model_accepts_every_request(site: RegionSetup, offer: Offer) -> None:
    client = a_client()
    with Stubber(client) as stubber:
        stubber.add_response("run_instances", {"Instances": []})
        client.run_instances(**native_request(replace(ORDER, offer=offer), site))
        stubber.assert_no_pending_responses()
    client.close()


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


def test_a_running_instance_is_a_running_machine_with_its_name_and_address() -> None:
    machine = translate.machine_of(instance(), REGION)
    assert (machine.name, machine.power, machine.address) == (
        "anygpu-1-1-mark",
        PowerState.RUNNING,
        "192.0.2.1",
    )
    assert (machine.started_at_ms, machine.ended_at_ms) == (1_769_860_800_000, None)
    assert translate.machine_of(instance(), REGION, public_address=False).address == "10.0.0.1"


@pytest.mark.parametrize(
    ("said", "preempted"),
    [
        ({"StateReason": {"Code": "Server.SpotInstanceTermination"}, "InstanceLifecycle": "spot"}, True),
        (
            {
                "StateTransitionReason": "Service initiated (2026-01-31 13:00:00 GMT)",
                "InstanceLifecycle": "spot",
            },
            True,
        ),
        ({"StateReason": {"Code": "Client.UserInitiatedShutdown"}, "InstanceLifecycle": "spot"}, False),
        ({"StateTransitionReason": "Service initiated (2026-01-31 13:00:00 GMT)"}, False),
    ],
)
def test_preempted_instances_are_told_apart_from_terminated_ones(
    said: dict[str, Any], preempted: bool
) -> None:
    assert translate.machine_of(instance(State={"Name": "terminated"}, **said), REGION).preempted is preempted


@pytest.mark.parametrize(
    ("reason", "ended_at_ms"),
    [
        ("User initiated (2026-01-31 13:00:00 GMT)", 1_769_864_400_000),
        ("Service initiated (2026-01-31 13:00:01 GMT)", 1_769_864_401_000),
        ("Server.SpotInstanceTermination: Spot instance termination", None),
        ("", None),
    ],
)
def test_the_end_time_is_parsed_from_the_transition_reason(reason: str, ended_at_ms: int | None) -> None:
    ended = instance(State={"Name": "terminated"}, StateTransitionReason=reason)
    assert translate.machine_of(ended, REGION).ended_at_ms == ended_at_ms


def test_host_keys_are_those_of_the_newest_block_in_the_console() -> None:
    def block(*lines: str) -> str:
        return "\r\n".join(["-----BEGIN SSH HOST KEY KEYS-----", *lines, "-----END SSH HOST KEY KEYS-----"])

    console = f"boot\r\n{block('ssh-rsa OLD root@a')}\r\nagain\r\n{block('ssh-ed25519 NEW root@a', 'ssh-rsa R root@a')}"
    assert translate.host_keys(console) == ("ssh-ed25519 NEW", "ssh-rsa R")
    assert translate.host_keys("boot\n-----BEGIN SSH HOST KEY KEYS-----\nssh-rsa") == ()


def a_client() -> Any:
    return boto3.client("ec2", region_name=REGION, aws_access_key_id="id", aws_secret_access_key="secret")
