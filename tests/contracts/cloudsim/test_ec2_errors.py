"""Errors, lost responses and lagging lists of the simulated EC2."""

from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError, EndpointConnectionError, ReadTimeoutError
from tests.contracts.cloudsim.ec2_client import HTTP, KEY_ID, SECRET, SPOT, SimEndpoints, order, shown

pytestmark = pytest.mark.usefixtures("nothing_left_over")


def test_caller_identity_and_quotas_can_be_read(aws: SimEndpoints) -> None:
    assert aws.client("sts").get_caller_identity()["Account"] == "123456789012"
    quota = aws.client("service-quotas").get_service_quota(ServiceCode="ec2", QuotaCode="L-DB2E81BA")["Quota"]
    assert quota["Value"] == 4096


@pytest.mark.parametrize(("key", "secret"), [("AKIANOBODY", SECRET), (KEY_ID, "guessed")])
def test_a_wrong_key_and_a_wrong_secret_are_rejected(aws: SimEndpoints, key: str, secret: str) -> None:
    with pytest.raises(ClientError, match="AuthFailure"):
        aws.client(key=key, secret=secret).describe_instances()
    with pytest.raises(ClientError, match="InvalidClientTokenId"):
        aws.client("sts", key=key, secret=secret).get_caller_identity()


def test_an_unknown_region_is_rejected(aws: SimEndpoints) -> None:
    with pytest.raises(ClientError, match=r"AuthFailure.*valid region"):
        aws.client(region="mars-east-1").describe_instances()


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
def test_faults_return_ec2s_errors(
    aws: SimEndpoints, image: str, fault: dict[str, Any], spot: bool, code: str
) -> None:
    aws.post("faults", **fault, vendor="ec2", times=1)
    with pytest.raises(ClientError) as refused:
        aws.client().run_instances(**order(image, "fault", **(SPOT if spot else {})))
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
def test_unknown_resources_are_rejected_by_name(
    aws: SimEndpoints, image: str, changes: dict[str, Any], code: str
) -> None:
    with pytest.raises(ClientError) as refused:
        aws.client().run_instances(**(order(image, "bad") | changes))
    assert refused.value.response["Error"]["Code"] == code


def test_an_unknown_instance_is_not_found_and_nothing_else_is_terminated(
    aws: SimEndpoints, image: str
) -> None:
    ec2 = aws.client()
    id = ec2.run_instances(**order(image, "safe"))["Instances"][0]["InstanceId"]
    with pytest.raises(ClientError, match=r"InvalidInstanceID\.NotFound"):
        ec2.terminate_instances(InstanceIds=[id, "i-00000000000000000"])
    assert shown(ec2, id)["State"]["Name"] in ("pending", "running")


def test_after_a_lost_response_the_token_finds_the_instance(aws: SimEndpoints, image: str) -> None:
    ec2, told = aws.client(), order(image, "lost", ClientToken="lost-1")
    aws.post("faults", kind="lost_answer", operation="launch", times=1)
    with pytest.raises((ConnectionClosedError, EndpointConnectionError, ReadTimeoutError)):
        ec2.run_instances(**told)
    [made] = [each for each in aws.get("instances") if each["name"] == "lost"]
    assert ec2.run_instances(**told)["Instances"][0]["InstanceId"] == made["id"]


def test_lists_lag_on_request(aws: SimEndpoints, image: str) -> None:
    ec2, by_name = aws.client(), [{"Name": "tag:anygpu-name", "Values": ["lag"]}]
    aws.post("faults", kind="listing_lag", seconds=60, vendor="ec2")
    ec2.run_instances(**order(image, "lag"))
    assert ec2.describe_instances(Filters=by_name)["Reservations"] == []
    aws.post("advance", seconds=61)
    assert len(ec2.describe_instances(Filters=by_name)["Reservations"]) == 1


def test_bills_list_every_machine_with_its_cost(aws: SimEndpoints, image: str) -> None:
    ec2 = aws.client()
    id = ec2.run_instances(**order(image, "books"))["Instances"][0]["InstanceId"]
    aws.post("advance", seconds=3600)
    ec2.terminate_instances(InstanceIds=[id])
    [entry] = [each for each in aws.get("books") if each["id"] == id]
    assert (entry["vendor"], entry["name"], entry["cause"]) == ("ec2", "books", "user")
    assert entry["billed_s"] in (3600, 3601)
    assert entry["billed_microusd"] == round(1_006_000 * entry["billed_s"] / 3600)


def test_an_unknown_fault_kind_is_rejected_with_the_list_of_kinds(aws: SimEndpoints) -> None:
    answer = HTTP.post(f"{aws.control}/faults", json={"kind": "meteor"})
    assert (answer.status_code, "lost_answer" in answer.text) == (422, True)
    assert HTTP.post(f"{aws.control}/preempt/i-nothing").status_code == 404
