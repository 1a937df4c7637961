"""What CanopyWave rents out: flavors of whole machines, each with the images that fit it."""

from typing import Any

from anygpu.testing.cloud.refusals import Refusal, Why
from anygpu.testing.cloud.vendor import MachineType, Rule, Vendor

PROJECT = "anygpu-sim"
GPU_IMAGES = ("GPU-Ubuntu.22.04", "GPU-Ubuntu.24.04")
CPU_IMAGES = ("CPU-Ubuntu.22.04", "CPU-Ubuntu.24.04")


def _gpu_flavor(gpu: str, memory_gib: int, count: int, cents_per_gpu: int) -> MachineType:
    return MachineType(
        name=f"{gpu}-{count}",
        price_microusd_per_hour=count * cents_per_gpu * 10_000,
        vcpus=20 * count,
        memory_gib=200 * count,
        gpu_kind=gpu,
        gpu_count=count,
        gpu_memory_gib=memory_gib,
        disk_gib=2048,
    )


VENDOR = Vendor(
    name="canopywave",
    regions={"sequoia": (), "KEF-3": ()},
    types=(
        *(_gpu_flavor("H100", 80, count, 225) for count in (1, 2, 4, 8)),
        _gpu_flavor("H200", 141, 8, 300),
        MachineType(
            name="m1.advanced", price_microusd_per_hour=560_000, vcpus=16, memory_gib=32, disk_gib=500
        ),
    ),
    rule=Rule(step_s=3600),
    on_halt="off",  # a server that is shut off keeps its host, and its bill
    credentials={"sim-canopywave-key": ""},
    address_microusd_per_hour=5_000,
)


def flavor(name: str) -> MachineType:
    if (kind := VENDOR.type_named(name)) is None:
        raise Refusal(Why.INVALID, f"Flavor {name} could not be found.", what=name)
    return kind


def images_of(kind: MachineType) -> tuple[str, ...]:
    return GPU_IMAGES if kind.gpu_count else CPU_IMAGES


def title(kind: MachineType) -> str:
    if not kind.gpu_count:
        return f"{kind.vcpus} vCPU x86 Server"
    return f"{kind.gpu_count}x {kind.gpu_kind} ({kind.gpu_memory_gib:.0f} GB SXM5)"


def flavor_json(kind: MachineType) -> dict[str, Any]:
    unit, count = ("gpu", kind.gpu_count) if kind.gpu_count else ("cpu", kind.vcpus)
    each = kind.price_microusd_per_hour / 1_000_000 / count
    return {
        "flavor": kind.name,
        "images": list(images_of(kind)),
        "name": title(kind),
        "price": kind.price_microusd_per_hour // 10_000,  # cents an hour for the whole flavor
        "priceHour": f"${each:.2f} / gpu / hour" if unit == "gpu" else f"${each:.3f} / cpu / hour",
        "specs": f"{kind.vcpus} cores, {float(kind.memory_gib)} GB RAM, {kind.disk_gib} GB NVMe",
    }
