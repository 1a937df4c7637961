"""Translate between EC2 and anygpu: build RunInstances requests, convert instances. Pure functions."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from anygpu.backends.vm.provider import CloudMachine, MachineOrder, PowerState

NAME_TAG = "anygpu-name"
POWER = {
    "pending": PowerState.STARTING,
    "running": PowerState.RUNNING,
    "stopping": PowerState.STOPPED,
    "stopped": PowerState.STOPPED,
    "shutting-down": PowerState.ENDING,
    "terminated": PowerState.ENDED,
}
# docs.aws.amazon.com/AWSEC2/latest/APIReference/API_StateReason.html
PREEMPTION_CODES = {"Server.SpotInstanceTermination", "Server.SpotInstanceShutdown"}
TRANSITION_TIME = re.compile(r"\((\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (?:GMT|UTC)\)")
HOST_KEYS = re.compile(
    r"-----BEGIN SSH HOST KEY KEYS-----\s*(.*?)\s*-----END SSH HOST KEY KEYS-----", re.DOTALL
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionSetup:
    """The part of a launch request that is the same for all machines of a region."""

    image: str
    root_device: str
    volume_gib: int
    security_group: str = ""  # empty: the default of the VPC or subnet
    subnet: str = ""  # empty: the default subnet
    public_address: bool = True
    reservation: str = ""  # the capacity reservation to launch into
    block: bool = False  # that reservation is a Capacity Block


def native_request(order: MachineOrder, setup: RegionSetup) -> dict[str, Any]:
    """Build the RunInstances request. The same order always gives the same request."""
    return {
        "ImageId": setup.image,
        "InstanceType": order.offer.name,
        "MinCount": 1,
        "MaxCount": 1,
        "ClientToken": order.name,
        "UserData": user_data(order),
        "InstanceInitiatedShutdownBehavior": "terminate",
        "MetadataOptions": {"HttpTokens": "required", "HttpEndpoint": "enabled"},
        "BlockDeviceMappings": [_root_disk(setup)],
        "TagSpecifications": _tags(order),
        **_network(order, setup),
        **_market(order, setup),
    }


def user_data(order: MachineOrder) -> str:
    """Build the cloud-init configuration with the SSH key and the startup script.

    With the key in the user data, there is no EC2 key pair to clean up.
    """
    config = {"ssh_authorized_keys": [order.public_key], "runcmd": [["sh", "-c", order.startup_script]]}
    return f"#cloud-config\n{json.dumps(config, indent=1)}\n"


def machine_of(instance: Mapping[str, Any], region: str, *, public_address: bool = True) -> CloudMachine:
    """Convert an instance, as DescribeInstances and RunInstances return it, to a `CloudMachine`."""
    power = POWER[instance["State"]["Name"]]
    reason = instance.get("StateReason", {})
    transition = str(instance.get("StateTransitionReason", ""))
    address = instance.get("PublicIpAddress" if public_address else "PrivateIpAddress")
    return CloudMachine(
        id=instance["InstanceId"],
        name=name_of(instance),
        power=power,
        region=region,
        address=str(address or ""),
        detail=str(reason.get("Message", "")) or transition,
        preempted=was_preempted(instance),
        started_at_ms=_ms(instance.get("LaunchTime")),
        ended_at_ms=ended_at_ms(transition) if power in (PowerState.ENDED, PowerState.ENDING) else None,
    )


def was_preempted(instance: Mapping[str, Any]) -> bool:
    """Return whether AWS took back a spot instance.

    Sometimes only the state transition reason of the instance shows that.
    """
    if instance.get("InstanceLifecycle") != "spot":
        return False
    transition = str(instance.get("StateTransitionReason", ""))
    return instance.get("StateReason", {}).get("Code") in PREEMPTION_CODES or transition.startswith(
        "Service init"
    )


def ended_at_ms(transition: str) -> int | None:
    """Parse the end time in a state transition reason such as 'User initiated (2026-01-31 12:00:00 GMT)'.

    Return it in Unix milliseconds; None if the text has no time.
    """
    match = TRANSITION_TIME.search(transition)
    if match is None:
        return None
    return _ms(datetime.strptime(match[1], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC))


def name_of(tagged: Mapping[str, Any]) -> str:
    return next((str(tag["Value"]) for tag in tagged.get("Tags", ()) if tag["Key"] == NAME_TAG), "")


def host_keys(console: str) -> tuple[str, ...]:
    """Return the SSH host keys that cloud-init printed on the console.

    If it printed several blocks of keys, those of the last block are returned.
    """
    blocks = HOST_KEYS.findall(console)
    lines = blocks[-1].splitlines() if blocks else []
    return tuple(" ".join(line.split()[:2]) for line in lines if len(line.split()) >= 2)


def _ms(moment: datetime | None) -> int | None:
    return None if moment is None else round(moment.timestamp() * 1000)


def _root_disk(setup: RegionSetup) -> dict[str, Any]:
    disk = {"VolumeSize": setup.volume_gib, "VolumeType": "gp3", "DeleteOnTermination": True}
    return {"DeviceName": setup.root_device, "Ebs": disk}


def _tags(order: MachineOrder) -> list[dict[str, Any]]:
    tags = [{"Key": NAME_TAG, "Value": order.name}, {"Key": "Name", "Value": order.name}]
    kinds = ["instance", "volume", *(["spot-instances-request"] if order.offer.interruptible else [])]
    return [{"ResourceType": kind, "Tags": tags} for kind in kinds]


def _network(order: MachineOrder, setup: RegionSetup) -> dict[str, Any]:
    zone = {"Placement": {"AvailabilityZone": order.offer.zone}} if order.offer.zone else {}
    groups = [setup.security_group] if setup.security_group else []
    if not setup.subnet:
        return {**zone, **({"SecurityGroupIds": groups} if groups else {})}
    card = {"DeviceIndex": 0, "SubnetId": setup.subnet, "AssociatePublicIpAddress": setup.public_address}
    return {"NetworkInterfaces": [{**card, **({"Groups": groups} if groups else {})}]}


def _market(order: MachineOrder, setup: RegionSetup) -> dict[str, Any]:
    if order.offer.interruptible:
        spot = {"SpotInstanceType": "one-time", "InstanceInterruptionBehavior": "terminate"}
        return {"InstanceMarketOptions": {"MarketType": "spot", "SpotOptions": spot}}
    if not setup.reservation:
        return {}
    target = {"CapacityReservationTarget": {"CapacityReservationId": setup.reservation}}
    block = {"InstanceMarketOptions": {"MarketType": "capacity-block"}} if setup.block else {}
    return {"CapacityReservationSpecification": target, **block}
