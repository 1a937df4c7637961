"""The JSON of a server in the format of OpenStack Nova, which CanopyWave's API returns unchanged."""

from typing import Any

from anygpu.cloudsim.apis.json_api import iso_time
from anygpu.cloudsim.instance import Instance, InstanceState

STATUS = {"building": "BUILD", "active": "ACTIVE", "stopped": "SHUTOFF", "deleted": "DELETED"}


def vm_state(instance: Instance) -> str:
    """Return Nova's `vm_state` of the server: building, active, stopped or deleted.

    While a server is being deleted, `vm_state` is still `active`; only `task_state` is `deleting`.
    """
    match instance.state:
        case InstanceState.PENDING:
            return "building"
        case InstanceState.STOPPED:
            return "stopped"
        case InstanceState.ENDED:
            return "deleted"
    return "active"


def server_json(instance: Instance, project: str) -> dict[str, Any]:
    state = vm_state(instance)
    return {
        "OS-EXT-AZ:availability_zone": "nova",
        "OS-EXT-STS:power_state": 1 if state == "active" else 4 if state == "stopped" else 0,
        "OS-EXT-STS:task_state": _task(instance),
        "OS-EXT-STS:vm_state": state,
        "OS-SRV-USG:launched_at": iso_time(instance.running_at_ms, "microseconds", zone=""),
        "OS-SRV-USG:terminated_at": iso_time(instance.ended_at_ms, "microseconds", zone=""),
        "accessIPv4": "",
        "accessIPv6": "",
        "addresses": _addresses(instance, project),
        "created": iso_time(instance.created_at_ms, "seconds"),
        "id": instance.id,
        "image": {"id": instance.order.native["image"]},
        "key_name": instance.order.native["keypair"],
        "metadata": {},
        "name": instance.name,
        "progress": 0,
        "security_groups": [{"name": "ssh"}, {"name": "default"}],
        "status": STATUS[state],
        "updated": iso_time(instance.running_at_ms or instance.created_at_ms, "seconds"),
    }


def _task(instance: Instance) -> str | None:
    if instance.state is InstanceState.PENDING:
        return "spawning"
    return "deleting" if instance.state is InstanceState.ENDING else None


def _addresses(instance: Instance, project: str) -> dict[str, Any]:
    """Return the private address only: as in Nova, an associated public address is not shown."""
    if instance.running_at_ms is None:
        return {}
    private = "172.16." + ".".join(instance.internal_ip.split(".")[2:])
    fixed = {"OS-EXT-IPS:type": "fixed", "addr": private, "version": 4}
    return {f"{project}-network": [fixed]}
