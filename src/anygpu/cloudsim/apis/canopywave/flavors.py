"""CanopyWave's machine types (flavors) and the images that each accepts."""

from typing import Any

from anygpu.cloudsim.errors import CloudError, ErrorReason
from anygpu.cloudsim.vendor import SimBillingRule, SimMachineType, SimVendor

PROJECT = "anygpu-sim"
GPU_IMAGES = ("GPU-Ubuntu.22.04", "GPU-Ubuntu.24.04")
CPU_IMAGES = ("CPU-Ubuntu.22.04", "CPU-Ubuntu.24.04")


def _gpu_flavor(gpu: str, memory_gib: int, count: int, cents_per_gpu: int) -> SimMachineType:
    return SimMachineType(
        name=f"{gpu}-{count}",
        price_microusd_per_hour=count * cents_per_gpu * 10_000,
        vcpus=20 * count,
        memory_gib=200 * count,
        gpu_kind=gpu,
        gpu_count=count,
        gpu_memory_gib=memory_gib,
        disk_gib=2048,
    )


VENDOR = SimVendor(
    name="canopywave",
    regions={"sequoia": (), "KEF-3": ()},
    types=(
        *(_gpu_flavor("H100", 80, count, 225) for count in (1, 2, 4, 8)),
        _gpu_flavor("H200", 141, 8, 300),
        SimMachineType(
            name="m1.advanced", price_microusd_per_hour=560_000, vcpus=16, memory_gib=32, disk_gib=500
        ),
    ),
    billing_rule=SimBillingRule(step_s=3600),
    on_halt="off",  # a server that is shut off stays on its host and is still billed
    credentials={"sim-canopywave-key": ""},
    address_microusd_per_hour=5_000,
)


def find_flavor(name: str) -> SimMachineType:
    if (machine_type := VENDOR.find_type(name)) is None:
        raise CloudError(
            ErrorReason.INVALID,
            f"Flavor {name} could not be found. List the flavors for their names.",
            subject=name,
        )
    return machine_type


def images_of(machine_type: SimMachineType) -> tuple[str, ...]:
    return GPU_IMAGES if machine_type.gpu_count else CPU_IMAGES


def title(machine_type: SimMachineType) -> str:
    if not machine_type.gpu_count:
        return f"{machine_type.vcpus} vCPU x86 Server"
    return f"{machine_type.gpu_count}x {machine_type.gpu_kind} ({machine_type.gpu_memory_gib:.0f} GB SXM5)"


def flavor_json(machine_type: SimMachineType) -> dict[str, Any]:
    memory = float(machine_type.memory_gib)
    unit, count = ("gpu", machine_type.gpu_count) if machine_type.gpu_count else ("cpu", machine_type.vcpus)
    each = machine_type.price_microusd_per_hour / 1_000_000 / count
    return {
        "flavor": machine_type.name,
        "images": list(images_of(machine_type)),
        "name": title(machine_type),
        "price": machine_type.price_microusd_per_hour // 10_000,  # cents an hour for the whole flavor
        "priceHour": f"${each:.2f} / gpu / hour" if unit == "gpu" else f"${each:.3f} / cpu / hour",
        "specs": f"{machine_type.vcpus} cores, {memory} GB RAM, {machine_type.disk_gib} GB NVMe",
    }
