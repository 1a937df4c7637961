"""The description of an instance, in the format of EC2's action DescribeInstances."""

from collections.abc import Iterable, Mapping

from anygpu.cloudsim.apis.ec2 import wire
from anygpu.cloudsim.apis.ec2.account import AwsRegion
from anygpu.cloudsim.apis.ec2.instance_types import ACCOUNT
from anygpu.cloudsim.apis.ec2.wire import Fields
from anygpu.cloudsim.instance import Instance, InstanceState, StopCause

STATE_CODES = {
    "pending": 0,
    "running": 16,
    "shutting-down": 32,
    "terminated": 48,
    "stopping": 64,
    "stopped": 80,
}
STATE_NAMES = {
    InstanceState.PENDING: "pending",
    InstanceState.RUNNING: "running",
    InstanceState.STOPPED: "stopped",
    InstanceState.ENDING: "shutting-down",
    InstanceState.ENDED: "terminated",
}
# Codes and messages of the StateReason data type in the EC2 API reference.
STATE_REASONS = {
    StopCause.USER: ("Client.UserInitiatedShutdown", "User initiated shutdown"),
    StopCause.HALT: ("Client.InstanceInitiatedShutdown", "Instance initiated shutdown"),
    StopCause.PREEMPTED: ("Server.SpotInstanceTermination", "Spot instance termination"),
    StopCause.EXPIRED: ("Server.ScheduledStop", "Stopped due to a scheduled retirement"),
}
TRANSITION_REASONS = {
    StopCause.USER: "User initiated",
    StopCause.PREEMPTED: "Service initiated",
    StopCause.EXPIRED: "Service initiated",
}


def state_name(instance: Instance) -> str:
    return STATE_NAMES[instance.state]


def describe_instance(region: AwsRegion, instance: Instance) -> Fields:
    fields = instance.order.native["fields"]
    state = state_name(instance)
    ended = instance.state.is_ended
    public = instance.address if not ended else ""
    return {
        "instanceId": instance.id,
        "imageId": fields.get("ImageId"),
        "instanceState": {"code": STATE_CODES[state], "name": state},
        "privateDnsName": "" if ended else f"ip-{_private_ip(instance).replace('.', '-')}.ec2.internal",
        "dnsName": public,
        "reason": transition_reason(instance),
        "keyName": fields.get("KeyName"),
        "amiLaunchIndex": 0,
        "productCodes": None,
        "instanceType": instance.type.name,
        "launchTime": wire.timestamp(instance.created_at_ms),
        "placement": {"availabilityZone": instance.zone, "groupName": "", "tenancy": "default"},
        "monitoring": {"state": "disabled"},
        "subnetId": None if ended else region.subnets[instance.zone],
        "vpcId": None if ended else region.vpc,
        "privateIpAddress": None if ended else _private_ip(instance),
        "ipAddress": public or None,
        "sourceDestCheck": True,
        "groupSet": [] if ended else _groups(region, fields),
        "stateReason": state_reason(instance),
        "architecture": "x86_64",
        "rootDeviceType": "ebs",
        "rootDeviceName": "/dev/sda1",
        "blockDeviceMapping": _disks(instance),
        "virtualizationType": "hvm",
        "instanceLifecycle": "spot" if instance.order.spot else None,
        "spotInstanceRequestId": instance.order.native["spot_request"] if instance.order.spot else None,
        "clientToken": instance.order.client_token,
        "tagSet": wire.tag_set(instance.tags),
        "hypervisor": "xen",
        "platformDetails": "Linux/UNIX",
        "usageOperation": "RunInstances",
        "usageOperationUpdateTime": wire.timestamp(instance.created_at_ms),
        "ebsOptimized": False,
        "enaSupport": True,
        "capacityReservationId": _reservation(fields),
    }


def instance_filter_values(region: AwsRegion, instance: Instance) -> Mapping[str, str | Iterable[str]]:
    """Return the values of an instance by filter name.

    DescribeInstances compares its filters with these values.
    """
    fields = instance.order.native["fields"]
    return {
        "instance-id": instance.id,
        "instance-state-name": state_name(instance),
        "instance-state-code": str(STATE_CODES[state_name(instance)]),
        "instance-type": instance.type.name,
        "instance-lifecycle": "spot" if instance.order.spot else "",
        "availability-zone": instance.zone,
        "client-token": instance.order.client_token,
        "image-id": fields.get("ImageId", ""),
        "key-name": fields.get("KeyName", ""),
        "vpc-id": region.vpc,
        "subnet-id": region.subnets[instance.zone],
        "ip-address": instance.address,
        "owner-id": ACCOUNT,
        "spot-instance-request-id": instance.order.native["spot_request"] if instance.order.spot else "",
        "instance.group-id": [group["groupId"] for group in _groups(region, fields)],
        "network-interface.group-id": [group["groupId"] for group in _groups(region, fields)],
    }


def transition_reason(instance: Instance) -> str:
    """Return why and when the instance stopped, as EC2 formats it: `User initiated (2026-08-22 10:00:00 GMT)`.

    The text is empty for a running instance and for an instance that shut itself down.
    """
    reason = TRANSITION_REASONS.get(instance.cause)
    if reason is None or instance.stopped_at_ms is None:
        return ""
    return f"{reason} ({wire.reason_time(instance.stopped_at_ms)})"


def state_reason(instance: Instance) -> Fields | None:
    if instance.state is InstanceState.PENDING:
        return {"code": "pending", "message": "pending"}
    if instance.cause not in STATE_REASONS:
        return None
    code, message = STATE_REASONS[instance.cause]
    return {"code": code, "message": f"{code}: {message}"}


def _private_ip(instance: Instance) -> str:
    return "172.31." + ".".join(instance.internal_ip.split(".")[2:])


def _groups(region: AwsRegion, fields: Fields) -> list[Fields]:
    interfaces = fields.get("NetworkInterface", [])
    ids = fields.get("SecurityGroupId") or [
        id for each in interfaces for id in each.get("SecurityGroupId", [])
    ]
    groups = [region.groups[id] for id in ids if id in region.groups] or [region.default_group]
    return [{"groupId": group.id, "groupName": group.name} for group in groups]


def _disks(instance: Instance) -> list[Fields]:
    if instance.state is InstanceState.ENDED:
        return []
    return [
        {
            "deviceName": "/dev/sda1",
            "ebs": {
                "volumeId": id,
                "status": "attached",
                "attachTime": wire.timestamp(instance.created_at_ms),
                "deleteOnTermination": not instance.order.keep_disk,
            },
        }
        for id in instance.disks
    ]


def _reservation(fields: Fields) -> str | None:
    target = fields.get("CapacityReservationSpecification", {}).get("CapacityReservationTarget", {})
    return target.get("CapacityReservationId") or None
