"""Paperspace's machine types and templates, and the JSON of a machine."""

from dataclasses import dataclass
from typing import Any

from anygpu.cloudsim.apis.json_api import iso_time
from anygpu.cloudsim.instance import Instance, InstanceState
from anygpu.cloudsim.vendor import SimBillingRule, SimMachineType, SimVendor

STORAGE_DOLLARS_PER_MONTH = 5  # for 50 GB, support.paperspace.com "Virtual Machine Billing Overview"


@dataclass(frozen=True, slots=True)
class OsTemplate:
    id: str
    name: str
    os: str


TEMPLATES = (
    OsTemplate("tsimu2204", "Ubuntu 22.04", "Ubuntu 22.04 Server"),
    OsTemplate("tsimml2204", "ML-in-a-Box", "Ubuntu 22.04 ML-in-a-Box"),
)


def _type(
    name: str, gpu: str, gpu_gib: int, count: int, cents: int, cpus: int, ram_gib: int
) -> SimMachineType:
    return SimMachineType(
        name=name,
        price_microusd_per_hour=cents * 10_000,
        vcpus=cpus,
        memory_gib=ram_gib,
        gpu_kind=gpu,
        gpu_count=count,
        gpu_memory_gib=gpu_gib,
        disk_gib=50,
    )


VENDOR = SimVendor(
    name="paperspace",
    regions={"ny2": (), "ca1": (), "ams1": ()},
    types=(
        _type("C5", "", 0, 0, 8, 4, 8),
        _type("P4000", "Quadro P4000", 8, 1, 51, 8, 30),
        _type("A4000", "RTX A4000", 16, 1, 76, 8, 45),
        _type("A4000x2", "RTX A4000", 16, 2, 152, 16, 90),
        _type("A100-80G", "A100-80G", 80, 1, 318, 12, 90),
        _type("H100", "H100", 80, 1, 595, 20, 250),
    ),
    billing_rule=SimBillingRule(step_s=3600),
    on_halt="stop",  # a stopped machine is billed for its storage only
    credentials={"sim-paperspace-key": ""},
    address_microusd_per_hour=4_000,
)


def template_json(template: OsTemplate) -> dict[str, Any]:
    return {
        "id": template.id,
        "name": template.name,
        "agentType": "LinuxHeadless",
        "operatingSystemLabel": template.os,
        "defaultSizeGb": 50,
        "availableMachineTypes": [
            {"machineTypeLabel": machine_type.name, "isAvailable": True} for machine_type in VENDOR.types
        ],
        "dtCreated": "2023-01-01T00:00:00.000Z",
    }


def machine_json(instance: Instance) -> dict[str, Any]:
    machine_type, request = instance.type, instance.order.native
    gpus = [
        {
            "name": machine_type.gpu_kind,
            "memory": int(machine_type.gpu_memory_gib) << 30,
            "count": machine_type.gpu_count,
        }
    ]
    return {
        "id": instance.id,
        "name": instance.name,
        "state": _state(instance),
        "os": next(template.os for template in TEMPLATES if template.id == request["templateId"]),
        "machineType": machine_type.name,
        "agentType": "LinuxHeadless",
        "cpus": machine_type.vcpus,
        "ram": str(int(machine_type.memory_gib) << 30),
        "storageTotal": str(instance.order.disk_gib << 30),
        "storageUsed": "0",
        "accelerators": gpus if machine_type.gpu_count else [],
        "region": instance.region,
        "privateIp": "10." + ".".join(instance.internal_ip.split(".")[1:]),
        "networkId": "nsim000001",
        "publicIp": instance.address or None,
        "publicIpType": request.get("publicIpType") or "none",
        "autoShutdownEnabled": bool(request.get("autoShutdownEnabled")),
        "autoShutdownTimeout": request.get("autoShutdownTimeout"),
        "autoShutdownForce": bool(request.get("autoShutdownForce")),
        "updatesPending": False,
        "usageRate": instance.price_microusd_per_hour / 1_000_000,
        "storageRate": STORAGE_DOLLARS_PER_MONTH,
        "dtCreated": iso_time(instance.created_at_ms),
        "dtModified": iso_time(instance.stopped_at_ms or instance.running_at_ms or instance.created_at_ms),
        "dtDeleted": iso_time(instance.ended_at_ms),
    }


def _state(instance: Instance) -> str:
    match instance.state:
        case InstanceState.PENDING:
            return "provisioning"
        case InstanceState.STOPPED:
            return "off"
        case InstanceState.ENDING | InstanceState.ENDED:
            return "stopping"
    return "starting" if instance.booted_at_ms is None else "ready"
