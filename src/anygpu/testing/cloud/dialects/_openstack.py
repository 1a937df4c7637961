"""A server as Nova describes it: what CanopyWave passes on for one instance."""

from typing import Any

from anygpu.testing.cloud.dialects._wire import iso
from anygpu.testing.cloud.instance import Instance, State

STATUS = {"building": "BUILD", "active": "ACTIVE", "stopped": "SHUTOFF", "deleted": "DELETED"}


def vm_state(instance: Instance) -> str:
    """A server that is being deleted stays `active` until it is gone; only its task says so."""
    match instance.state:
        case State.PENDING:
            return "building"
        case State.STOPPED:
            return "stopped"
        case State.ENDED:
            return "deleted"
    return "active"


def details(instance: Instance, project: str) -> dict[str, Any]:
    state = vm_state(instance)
    return {
        "OS-EXT-AZ:availability_zone": "nova",
        "OS-EXT-STS:power_state": 1 if state == "active" else 4 if state == "stopped" else 0,
        "OS-EXT-STS:task_state": _task(instance),
        "OS-EXT-STS:vm_state": state,
        "OS-SRV-USG:launched_at": iso(instance.running_at_ms, "microseconds", zone=""),
        "OS-SRV-USG:terminated_at": iso(instance.ended_at_ms, "microseconds", zone=""),
        "accessIPv4": "",
        "accessIPv6": "",
        "addresses": _addresses(instance, project),
        "created": iso(instance.created_at_ms, "seconds"),
        "id": instance.id,
        "image": {"id": instance.order.native["image"]},
        "key_name": instance.order.native["keypair"],
        "metadata": {},
        "name": instance.name,
        "progress": 0,
        "security_groups": [{"name": "ssh"}, {"name": "default"}],
        "status": STATUS[state],
        "updated": iso(instance.running_at_ms or instance.created_at_ms, "seconds"),
    }


def _task(instance: Instance) -> str | None:
    if instance.state is State.PENDING:
        return "spawning"
    return "deleting" if instance.state is State.ENDING else None


def _addresses(instance: Instance, project: str) -> dict[str, Any]:
    """Only the private one, also when a public address is associated."""
    if instance.running_at_ms is None:
        return {}
    private = "172.16." + ".".join(instance.inside_ip.split(".")[2:])
    fixed = {"OS-EXT-IPS:type": "fixed", "addr": private, "version": 4}
    return {f"{project}-network": [fixed]}
