"""Running, describing and terminating instances."""

import base64
import json
from collections.abc import Mapping

from anygpu.testing.cloud.dialects.ec2 import wire
from anygpu.testing.cloud.dialects.ec2.account import Region
from anygpu.testing.cloud.dialects.ec2.failure import Failure
from anygpu.testing.cloud.dialects.ec2.filtering import matching
from anygpu.testing.cloud.dialects.ec2.goods import ACCOUNT, VENDOR
from anygpu.testing.cloud.dialects.ec2.images import check_image
from anygpu.testing.cloud.dialects.ec2.shown import STATES, instance_facts, shown, state_of
from anygpu.testing.cloud.dialects.ec2.wire import Fields, true
from anygpu.testing.cloud.instance import Instance, Order
from anygpu.testing.cloud.refusals import Refusal, Why

SHOWN_FOR_S = 3600  # a terminated instance stays visible for about an hour
NOT_PARAMETERS = ("Action", "Version", "ClientToken", "DryRun")


async def run_instances(region: Region, fields: Fields) -> Fields:
    if int(fields.get("MinCount", 1)) < 1 or int(fields.get("MaxCount", 1)) != 1:
        raise Failure(
            "InvalidParameterValue", "The simulator runs one instance a request: MinCount and MaxCount 1."
        )
    _check(region, fields)
    try:
        instance = region.cloud.rent(_order(region, fields))
    except Refusal as refusal:
        raise _about_launch(refusal, fields) from refusal
    _tag_disks(region, instance, wire.tags_for(fields, "volume"))
    return _reservation(region, instance)


async def describe_instances(region: Region, fields: Fields) -> Fields:
    listed = region.cloud.listed(VENDOR, region=region.name, forget_s=SHOWN_FOR_S)
    wanted = fields.get("InstanceId", [])
    found = {each.id: each for each in listed}
    for id in wanted:
        if id not in found:
            raise Failure("InvalidInstanceID.NotFound", f"The instance ID '{id}' does not exist")
    chosen = [found[id] for id in wanted] if wanted else listed
    passing = matching(chosen, fields, lambda each: instance_facts(region, each), lambda each: each.tags)
    some, token = wire.page(passing, fields)
    return {"reservationSet": [_listed(region, each) for each in some], "nextToken": token}


def _listed(region: Region, instance: Instance) -> wire.Rendered:
    """As it was written for the last list, unless something that changes has changed."""
    changes = (instance.state, instance.address, instance.cause, instance.stopped_at_ms)
    version = (*changes, *instance.tags.items(), *instance.disks)
    known = region.rendered.get(instance.id)
    if known is None or known[0] != version:
        known = region.rendered[instance.id] = version, wire.rendered(_reservation(region, instance))
    return known[1]


async def terminate_instances(region: Region, fields: Fields) -> Fields:
    """All or none: one unknown id, and nothing is terminated."""
    instances = [known(region, id) for id in fields.get("InstanceId", [])]
    before = [state_of(each) for each in instances]
    for instance in instances:
        region.cloud.end(instance)
    return {
        "instancesSet": [
            {"instanceId": each.id, "currentState": _state(state_of(each)), "previousState": _state(was)}
            for each, was in zip(instances, before, strict=True)
        ]
    }


async def describe_instance_status(region: Region, fields: Fields) -> Fields:
    everything = true(fields.get("IncludeAllInstances"))
    wanted = fields.get("InstanceId", [])
    listed = region.cloud.listed(VENDOR, region=region.name, forget_s=SHOWN_FOR_S)
    chosen = [
        each
        for each in listed
        if (not wanted or each.id in wanted) and (everything or state_of(each) == "running")
    ]
    some, token = wire.page(matching(chosen, fields, lambda each: instance_facts(region, each)), fields)
    return {"instanceStatusSet": [_status(each) for each in some], "nextToken": token}


async def get_console_output(region: Region, fields: Fields) -> Fields:
    instance = known(region, fields["InstanceId"])
    text = base64.b64encode(instance.console.encode()).decode()
    at_ms = instance.booted_at_ms or instance.created_at_ms
    return {"instanceId": instance.id, "timestamp": wire.timestamp(at_ms), "output": text or None}


def known(region: Region, id: str) -> Instance:
    try:
        instance = region.cloud.find(VENDOR, id)
    except Refusal as refusal:
        raise Failure("InvalidInstanceID.NotFound", f"The instance ID '{id}' does not exist") from refusal
    if instance.region != region.name:
        raise Failure("InvalidInstanceID.NotFound", f"The instance ID '{id}' does not exist")
    return instance


def _order(region: Region, fields: Fields) -> Order:
    tags = wire.tags_for(fields, "instance")
    market = fields.get("InstanceMarketOptions", {})
    halt = fields.get("InstanceInitiatedShutdownBehavior", "stop")
    disk = _root_disk(fields)
    return Order(
        vendor=VENDOR,
        type=fields.get("InstanceType", "m1.small"),
        region=region.name,
        zone=_zone(region, fields),
        name=tags.get("anygpu-name") or tags.get("Name", ""),
        tags=tags,
        spot=market.get("MarketType") == "spot",
        client_token=fields.get("ClientToken", ""),
        parameters=_parameters(fields),
        user_data=base64.b64decode(fields.get("UserData", "")),
        public_keys=_keys(region, fields),
        on_halt="end" if halt == "terminate" else "stop",
        disk_gib=int(disk.get("VolumeSize") or 0),
        keeps_disk=not true(disk.get("DeleteOnTermination", "true")),
        native={"fields": fields, "spot_request": region.cloud.new_id("sir-", 8)},
    )


def _check(region: Region, fields: Fields) -> None:
    check_image(region, fields.get("ImageId", ""))
    for group in _groups(fields):
        if group not in region.groups:
            raise Failure(
                "InvalidGroup.NotFound", f"The security group '{group}' does not exist in VPC '{region.vpc}'"
            )
    if fields.get("InstanceMarketOptions", {}).get("MarketType", "spot") not in ("spot", "capacity-block"):
        raise Failure("InvalidParameterValue", "Invalid value for MarketType")
    target = _reservation_target(fields)
    if target and target not in region.reservations:
        raise Failure(
            "InvalidCapacityReservationId.NotFound", f"The capacity reservation '{target}' does not exist."
        )


def _groups(fields: Fields) -> list[str]:
    """Named at the instance or at its network interface."""
    interfaces = fields.get("NetworkInterface", [])
    return [
        *fields.get("SecurityGroupId", []),
        *(id for each in interfaces for id in each.get("SecurityGroupId", [])),
    ]


def _keys(region: Region, fields: Fields) -> tuple[str, ...]:
    name = fields.get("KeyName", "")
    if not name:
        return ()
    try:
        return (region.cloud.keys.find(VENDOR, region.name, name).public_key,)
    except Refusal as refusal:
        raise Failure("InvalidKeyPair.NotFound", f"The key pair '{name}' does not exist") from refusal


def _zone(region: Region, fields: Fields) -> str:
    asked = fields.get("Placement", {}).get("AvailabilityZone", "")
    if asked and asked not in VENDOR.zones(region.name):
        raise Failure("InvalidParameterValue", f"Invalid availability zone: [{asked}]")
    interfaces = fields.get("NetworkInterface", [{}])
    subnet = fields.get("SubnetId") or interfaces[0].get("SubnetId", "")
    if not subnet:
        reserved = region.reservations.get(_reservation_target(fields))
        return asked or (reserved.zone if reserved else "")
    for zone, id in region.subnets.items():
        if id == subnet:
            return zone
    raise Failure("InvalidSubnetID.NotFound", f"The subnet ID '{subnet}' does not exist")


def _root_disk(fields: Fields) -> Mapping[str, str]:
    return next((each["Ebs"] for each in fields.get("BlockDeviceMapping", []) if "Ebs" in each), {})


def _reservation_target(fields: Fields) -> str:
    target = fields.get("CapacityReservationSpecification", {}).get("CapacityReservationTarget", {})
    return str(target.get("CapacityReservationId", ""))


def _parameters(fields: Fields) -> str:
    return json.dumps(
        {name: value for name, value in fields.items() if name not in NOT_PARAMETERS}, sort_keys=True
    )


def _about_launch(refusal: Refusal, fields: Fields) -> Failure | Refusal:
    kind = fields.get("InstanceType", "")
    if refusal.why is Why.INVALID:
        return Failure("InvalidParameterValue", f"Invalid value '{kind}' for InstanceType.")
    return refusal


def _tag_disks(region: Region, instance: Instance, tags: Mapping[str, str]) -> None:
    for id in instance.disks:
        disk = region.cloud.disks.find(VENDOR, id)
        disk.tags.update(tags)


def _reservation(region: Region, instance: Instance) -> Fields:
    return {
        "reservationId": f"r-{instance.id.removeprefix('i-')}",
        "ownerId": ACCOUNT,
        "groupSet": None,
        "instancesSet": [shown(region, instance)],
    }


def _state(name: str) -> Fields:
    return {"code": STATES[name], "name": name}


def _status(instance: Instance) -> Fields:
    up = instance.booted_at_ms is not None
    health = {"status": "ok" if up else "initializing"}
    return {
        "instanceId": instance.id,
        "availabilityZone": instance.zone,
        "instanceState": _state(state_of(instance)),
        "instanceStatus": health,
        "systemStatus": health,
    }
