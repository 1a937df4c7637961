"""EC2's actions on key pairs, volumes, spot requests, capacity reservations and tags."""

import base64
import binascii
import hashlib

from anygpu.cloudsim.apis.ec2 import wire
from anygpu.cloudsim.apis.ec2.account import AwsRegion, SimReservation
from anygpu.cloudsim.apis.ec2.errors import Ec2Error
from anygpu.cloudsim.apis.ec2.instance_types import ACCOUNT, VENDOR
from anygpu.cloudsim.apis.ec2.wire import Fields, apply_filters
from anygpu.cloudsim.errors import CloudError, ErrorReason
from anygpu.cloudsim.instance import Instance, StopCause
from anygpu.cloudsim.resources import LoginKey, SimDisk


async def import_key_pair(region: AwsRegion, fields: Fields) -> Fields:
    try:
        public_key = base64.b64decode(fields.get("PublicKeyMaterial", ""), validate=True).decode()
        key = region.cloud.keys.add(VENDOR, region.name, fields["KeyName"], public_key)
    except (binascii.Error, UnicodeDecodeError, CloudError) as error:
        raise _key_error(error) from error
    key.tags.update(wire.tags_for(fields, "key-pair"))
    return {
        "keyName": key.name,
        "keyFingerprint": _fingerprint(key),
        "keyPairId": key.id,
        "tagSet": wire.tag_set(key.tags),
    }


def _key_error(error: Exception) -> Ec2Error:
    if isinstance(error, CloudError) and error.reason is ErrorReason.CONFLICT:
        return Ec2Error("InvalidKeyPair.Duplicate", error.message)
    return Ec2Error(
        "InvalidKey.Format", "The key is not a public key in OpenSSH format. Send the text of a .pub file."
    )


async def describe_key_pairs(region: AwsRegion, fields: Fields) -> Fields:
    names, ids = fields.get("KeyName", []), fields.get("KeyPairId", [])
    keys = region.cloud.keys.all(VENDOR, region.name)
    for name in names:
        if not any(key.name == name for key in keys):
            raise Ec2Error(
                "InvalidKeyPair.NotFound",
                f"The key pair '{name}' does not exist. DescribeKeyPairs without names lists all.",
            )
    chosen = [key for key in keys if (not names or key.name in names) and (not ids or key.id in ids)]
    matching = apply_filters(
        chosen, fields, lambda key: {"key-name": key.name, "key-pair-id": key.id}, lambda key: key.tags
    )
    return {
        "keySet": [
            {
                "keyName": key.name,
                "keyPairId": key.id,
                "keyType": "ed25519",
                "keyFingerprint": _fingerprint(key),
                "createTime": wire.timestamp(key.created_at_ms),
                "tagSet": wire.tag_set(key.tags),
            }
            for key in matching
        ]
    }


async def delete_key_pair(region: AwsRegion, fields: Fields) -> Fields:
    """Delete a key pair. As in EC2, deleting an unknown key succeeds."""
    try:
        key = region.cloud.keys.find(
            VENDOR, region.name, fields.get("KeyName") or fields.get("KeyPairId", "")
        )
    except CloudError:
        return {"return": True}
    region.cloud.keys.remove(VENDOR, region.name, key.name)
    return {"return": True, "keyPairId": key.id}


async def describe_volumes(region: AwsRegion, fields: Fields) -> Fields:
    ids = fields.get("VolumeId", [])
    disks = [disk for disk in region.cloud.disks.all(VENDOR) if disk.region == region.name]
    chosen = [disk for disk in disks if not ids or disk.id in ids]
    if len(chosen) < len(ids):
        raise Ec2Error(
            "InvalidVolume.NotFound",
            f"The volume '{ids[0]}' does not exist. DescribeVolumes without ids lists all.",
        )
    shown, token = wire.page(
        apply_filters(chosen, fields, _disk_filter_values, lambda disk: disk.tags), fields
    )
    return {"volumeSet": [_describe_volume(disk) for disk in shown], "nextToken": token}


async def delete_volume(region: AwsRegion, fields: Fields) -> Fields:
    try:
        region.cloud.disks.remove(VENDOR, fields.get("VolumeId", ""))
    except CloudError as refusal:
        code = "VolumeInUse" if refusal.reason is ErrorReason.CONFLICT else "InvalidVolume.NotFound"
        raise Ec2Error(code, refusal.message) from refusal
    return {"return": True}


async def describe_spot_instance_requests(region: AwsRegion, fields: Fields) -> Fields:
    ids = fields.get("SpotInstanceRequestId", [])
    spots = [
        each
        for each in region.cloud.list_instances(VENDOR, region=region.name)
        if each.order.spot and (not ids or each.order.native["spot_request"] in ids)
    ]
    matching = apply_filters(spots, fields, _request_filter_values, lambda each: each.tags)
    shown, token = wire.page(matching, fields)
    return {"spotInstanceRequestSet": [_describe_request(each) for each in shown], "nextToken": token}


async def create_capacity_reservation(region: AwsRegion, fields: Fields) -> Fields:
    reservation = SimReservation(
        id=region.cloud.new_id("cr-"),
        type=fields["InstanceType"],
        zone=fields.get("AvailabilityZone") or VENDOR.zones(region.name)[0],
        count=int(fields["InstanceCount"]),
        tags=wire.tags_for(fields, "capacity-reservation"),
    )
    region.reservations[reservation.id] = reservation
    return {"capacityReservation": _describe_reservation(region, reservation)}


async def describe_capacity_reservations(region: AwsRegion, fields: Fields) -> Fields:
    ids = fields.get("CapacityReservationId", [])
    for id in ids:
        if id not in region.reservations:
            message = (
                f"The capacity reservation '{id}' does not exist. DescribeCapacityReservations without ids lists "
                "all."
            )
            raise Ec2Error("InvalidCapacityReservationId.NotFound", message)
    chosen = [each for each in region.reservations.values() if not ids or each.id in ids]
    matching = apply_filters(
        chosen,
        fields,
        lambda each: {"instance-type": each.type, "availability-zone": each.zone, "state": "active"},
        lambda each: each.tags,
    )
    return {"capacityReservationSet": [_describe_reservation(region, each) for each in matching]}


async def describe_reserved_instances(region: AwsRegion, fields: Fields) -> Fields:
    """Return an empty list: the account has no reserved instances."""
    return {"reservedInstancesSet": []}


def _fingerprint(key: LoginKey) -> str:
    body = base64.b64decode(key.public_key.split()[1] + "==")
    return base64.b64encode(hashlib.sha256(body).digest()).decode()


def _disk_filter_values(disk: SimDisk) -> dict[str, str]:
    return {
        "volume-id": disk.id,
        "status": "in-use" if disk.instance else "available",
        "attachment.instance-id": disk.instance,
        "availability-zone": disk.zone,
    }


def _describe_volume(disk: SimDisk) -> Fields:
    attachment = {
        "volumeId": disk.id,
        "instanceId": disk.instance,
        "device": "/dev/sda1",
        "status": "attached",
        "deleteOnTermination": disk.delete_with_instance,
    }
    return {
        "volumeId": disk.id,
        "size": disk.size_gib,
        "snapshotId": "",
        "availabilityZone": disk.zone,
        "status": "in-use" if disk.instance else "available",
        "createTime": wire.timestamp(disk.created_at_ms),
        "attachmentSet": [attachment] if disk.instance else [],
        "volumeType": "gp3",
        "encrypted": False,
        "tagSet": wire.tag_set(disk.tags),
    }


def _request_filter_values(instance: Instance) -> dict[str, str]:
    state, code, _ = _request_state(instance)
    return {
        "spot-instance-request-id": instance.order.native["spot_request"],
        "instance-id": instance.id,
        "state": state,
        "status-code": code,
    }


def _describe_request(instance: Instance) -> Fields:
    state, code, message = _request_state(instance)
    at_ms = instance.preempt_at_ms if instance.cause is StopCause.PREEMPTED else instance.stopped_at_ms
    return {
        "spotInstanceRequestId": instance.order.native["spot_request"],
        "spotPrice": f"{instance.type.price_microusd_per_hour / 1_000_000:.6f}",
        "type": "one-time",
        "state": state,
        "status": {
            "code": code,
            "message": message,
            "updateTime": wire.timestamp(at_ms or instance.created_at_ms),
        },
        "instanceId": instance.id,
        "createTime": wire.timestamp(instance.created_at_ms),
        "launchedAvailabilityZone": instance.zone,
        "productDescription": "Linux/UNIX",
        "instanceInterruptionBehavior": "terminate",
        "tagSet": wire.tag_set(instance.tags),
    }


def _request_state(instance: Instance) -> tuple[str, str, str]:
    """Return the state, status code and message of a spot request.

    The codes and messages are those under "Spot request status" in EC2's user guide.
    """
    if not instance.state.is_ended:
        if instance.notice_at_ms is None:
            return "active", "fulfilled", "Your spot request is fulfilled."
        message = "Your Spot Instance has been marked for termination."
        return "active", "marked-for-termination", message
    if instance.cause is StopCause.PREEMPTED:
        message = "there is no Spot capacity available that matches your request."
        message = f"Your Spot instance was terminated because {message}"
        return "closed", "instance-terminated-no-capacity", message
    return (
        "closed",
        "instance-terminated-by-user",
        "Spot Instance terminated due to user-initiated termination.",
    )


def _describe_reservation(region: AwsRegion, reservation: SimReservation) -> Fields:
    used = sum(
        each.state.is_active and _uses(each, reservation.id)
        for each in region.cloud.instances.values()
        if each.vendor.name == VENDOR.name
    )
    return {
        "capacityReservationId": reservation.id,
        "ownerId": ACCOUNT,
        "instanceType": reservation.type,
        "instancePlatform": "Linux/UNIX",
        "availabilityZone": reservation.zone,
        "tenancy": "default",
        "totalInstanceCount": reservation.count,
        "availableInstanceCount": reservation.count - used,
        "state": "active",
        "endDateType": "unlimited",
        "instanceMatchCriteria": "targeted",
        "tagSet": wire.tag_set(reservation.tags),
    }


def _uses(instance: Instance, reservation: str) -> bool:
    target = instance.order.native["fields"].get("CapacityReservationSpecification", {})
    return bool(target.get("CapacityReservationTarget", {}).get("CapacityReservationId") == reservation)
