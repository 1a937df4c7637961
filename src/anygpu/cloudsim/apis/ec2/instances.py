"""EC2's actions on instances: run, describe, terminate, console output."""

import base64
import json
from collections.abc import Mapping

from anygpu.cloudsim.apis.ec2 import wire
from anygpu.cloudsim.apis.ec2.account import AwsRegion
from anygpu.cloudsim.apis.ec2.describe import (
    STATE_CODES,
    describe_instance,
    instance_filter_values,
    state_name,
)
from anygpu.cloudsim.apis.ec2.errors import Ec2Error
from anygpu.cloudsim.apis.ec2.images import check_image
from anygpu.cloudsim.apis.ec2.instance_types import ACCOUNT, VENDOR
from anygpu.cloudsim.apis.ec2.wire import Fields, apply_filters, is_true
from anygpu.cloudsim.errors import CloudError, ErrorReason
from anygpu.cloudsim.instance import Instance, InstanceOrder

VISIBLE_AFTER_END_S = 3600  # a terminated instance stays visible for about an hour
NOT_PARAMETERS = ("Action", "Version", "ClientToken", "DryRun")


async def run_instances(region: AwsRegion, fields: Fields) -> Fields:
    if int(fields.get("MinCount", 1)) < 1 or int(fields.get("MaxCount", 1)) != 1:
        raise Ec2Error(
            "InvalidParameterValue",
            "The simulator launches one instance per request. Set MinCount and MaxCount to 1.",
        )
    _check_request(region, fields)
    try:
        instance = region.cloud.launch(_order(region, fields))
    except CloudError as error:
        raise _launch_error(error, fields) from error
    _tag_disks(region, instance, wire.tags_for(fields, "volume"))
    return _reservation(region, instance)


async def describe_instances(region: AwsRegion, fields: Fields) -> Fields:
    listed = region.cloud.list_instances(VENDOR, region=region.name, forget_s=VISIBLE_AFTER_END_S)
    ids = fields.get("InstanceId", [])
    by_id = {each.id: each for each in listed}
    for id in ids:
        if id not in by_id:
            raise Ec2Error("InvalidInstanceID.NotFound", f"The instance ID '{id}' does not exist")
    chosen = [by_id[id] for id in ids] if ids else listed
    passing = apply_filters(
        chosen, fields, lambda each: instance_filter_values(region, each), lambda each: each.tags
    )
    shown, token = wire.page(passing, fields)
    return {"reservationSet": [_rendered_reservation(region, each) for each in shown], "nextToken": token}


def _rendered_reservation(region: AwsRegion, instance: Instance) -> wire.RenderedXml:
    """Return the XML of an instance. The XML is cached until the instance changes."""
    changes = (instance.state, instance.address, instance.cause, instance.stopped_at_ms)
    version = (*changes, *instance.tags.items(), *instance.disks)
    cached = region.rendered_instances.get(instance.id)
    if cached is None or cached[0] != version:
        cached = region.rendered_instances[instance.id] = version, wire.render(_reservation(region, instance))
    return cached[1]


async def terminate_instances(region: AwsRegion, fields: Fields) -> Fields:
    """Terminate all given instances, or none of them if an id is unknown."""
    instances = [find_instance(region, id) for id in fields.get("InstanceId", [])]
    before = [state_name(each) for each in instances]
    for instance in instances:
        region.cloud.terminate(instance)
    return {
        "instancesSet": [
            {"instanceId": each.id, "currentState": _state(state_name(each)), "previousState": _state(was)}
            for each, was in zip(instances, before, strict=True)
        ]
    }


async def get_console_output(region: AwsRegion, fields: Fields) -> Fields:
    instance = find_instance(region, fields["InstanceId"])
    text = base64.b64encode(instance.console.encode()).decode()
    at_ms = instance.booted_at_ms or instance.created_at_ms
    return {"instanceId": instance.id, "timestamp": wire.timestamp(at_ms), "output": text or None}


def find_instance(region: AwsRegion, id: str) -> Instance:
    try:
        instance = region.cloud.find_instance(VENDOR, id)
    except CloudError as error:
        raise Ec2Error("InvalidInstanceID.NotFound", f"The instance ID '{id}' does not exist") from error
    if instance.region != region.name:
        raise Ec2Error("InvalidInstanceID.NotFound", f"The instance ID '{id}' does not exist")
    return instance


def _order(region: AwsRegion, fields: Fields) -> InstanceOrder:
    tags = wire.tags_for(fields, "instance")
    market = fields.get("InstanceMarketOptions", {})
    halt = fields.get("InstanceInitiatedShutdownBehavior", "stop")
    disk = _root_disk(fields)
    return InstanceOrder(
        vendor=VENDOR,
        type=fields.get("InstanceType", "m1.small"),
        region=region.name,
        zone=_requested_zone(region, fields),
        name=tags.get("anygpu-name") or tags.get("Name", ""),
        tags=tags,
        spot=market.get("MarketType") == "spot",
        client_token=fields.get("ClientToken", ""),
        parameters=_parameters(fields),
        user_data=base64.b64decode(fields.get("UserData", "")),
        public_keys=_keys(region, fields),
        on_halt="end" if halt == "terminate" else "stop",
        disk_gib=int(disk.get("VolumeSize") or 0),
        keep_disk=not is_true(disk.get("DeleteOnTermination", "true")),
        native={"fields": fields, "spot_request": region.cloud.new_id("sir-", 8)},
    )


def _check_request(region: AwsRegion, fields: Fields) -> None:
    check_image(region, fields.get("ImageId", ""))
    for group in _groups(fields):
        if group not in region.groups:
            raise Ec2Error(
                "InvalidGroup.NotFound", f"The security group '{group}' does not exist in VPC '{region.vpc}'"
            )
    if fields.get("InstanceMarketOptions", {}).get("MarketType", "spot") not in ("spot", "capacity-block"):
        raise Ec2Error(
            "InvalidParameterValue",
            "The value of MarketType is not valid. Send 'spot', or leave it out for an on-demand instance.",
        )
    target = _reservation_target(fields)
    if target and target not in region.reservations:
        raise Ec2Error(
            "InvalidCapacityReservationId.NotFound",
            f"The capacity reservation '{target}' does not exist. DescribeCapacityReservations lists them.",
        )


def _groups(fields: Fields) -> list[str]:
    """Return the ids of the security groups in the request, including those of its network interfaces."""
    interfaces = fields.get("NetworkInterface", [])
    return [
        *fields.get("SecurityGroupId", []),
        *(id for each in interfaces for id in each.get("SecurityGroupId", [])),
    ]


def _keys(region: AwsRegion, fields: Fields) -> tuple[str, ...]:
    name = fields.get("KeyName", "")
    if not name:
        return ()
    try:
        return (region.cloud.keys.find(VENDOR, region.name, name).public_key,)
    except CloudError as error:
        raise Ec2Error(
            "InvalidKeyPair.NotFound", f"The key pair '{name}' does not exist. Create it with ImportKeyPair."
        ) from error


def _requested_zone(region: AwsRegion, fields: Fields) -> str:
    requested = fields.get("Placement", {}).get("AvailabilityZone", "")
    if requested and requested not in VENDOR.zones(region.name):
        raise Ec2Error(
            "InvalidParameterValue",
            f"The availability zone [{requested}] does not exist. DescribeAvailabilityZones lists the zones.",
        )
    interfaces = fields.get("NetworkInterface", [{}])
    subnet = fields.get("SubnetId") or interfaces[0].get("SubnetId", "")
    if not subnet:
        reserved = region.reservations.get(_reservation_target(fields))
        return requested or (reserved.zone if reserved else "")
    for zone, id in region.subnets.items():
        if id == subnet:
            return zone
    raise Ec2Error(
        "InvalidSubnetID.NotFound",
        f"The subnet ID '{subnet}' does not exist. DescribeSubnets lists the subnets.",
    )


def _root_disk(fields: Fields) -> Mapping[str, str]:
    return next((each["Ebs"] for each in fields.get("BlockDeviceMapping", []) if "Ebs" in each), {})


def _reservation_target(fields: Fields) -> str:
    target = fields.get("CapacityReservationSpecification", {}).get("CapacityReservationTarget", {})
    return str(target.get("CapacityReservationId", ""))


def _parameters(fields: Fields) -> str:
    return json.dumps(
        {name: value for name, value in fields.items() if name not in NOT_PARAMETERS}, sort_keys=True
    )


def _launch_error(error: CloudError, fields: Fields) -> Ec2Error | CloudError:
    machine_type = fields.get("InstanceType", "")
    if error.reason is ErrorReason.INVALID:
        return Ec2Error(
            "InvalidParameterValue",
            f"Invalid value '{machine_type}' for InstanceType. DescribeInstanceTypes lists the instance types.",
        )
    return error


def _tag_disks(region: AwsRegion, instance: Instance, tags: Mapping[str, str]) -> None:
    for id in instance.disks:
        disk = region.cloud.disks.find(VENDOR, id)
        disk.tags.update(tags)


def _reservation(region: AwsRegion, instance: Instance) -> Fields:
    return {
        "reservationId": f"r-{instance.id.removeprefix('i-')}",
        "ownerId": ACCOUNT,
        "groupSet": None,
        "instancesSet": [describe_instance(region, instance)],
    }


def _state(name: str) -> Fields:
    return {"code": STATE_CODES[name], "name": name}
