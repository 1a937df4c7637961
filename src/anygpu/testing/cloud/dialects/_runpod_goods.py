"""What RunPod rents out: GPUs by the piece, in two clouds. A machine here is a number of one kind of them."""

from dataclasses import dataclass
from typing import Any

from anygpu.testing.cloud.vendor import MachineType, Vendor

SECURE, COMMUNITY = "SECURE", "COMMUNITY"
COUNTS = (1, 2, 4, 8)


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU type; prices are cents an hour for one, None where that cloud has none."""

    id: str
    title: str
    memory_gib: int
    secure: int
    community: int | None
    spot: int
    vcpus: int
    memory_per_gpu_gib: int


GPUS = (
    Gpu("NVIDIA RTX A4000", "RTX A4000", 16, 25, 17, 13, 6, 35),
    Gpu("NVIDIA L4", "L4", 24, 49, None, 25, 8, 45),
    Gpu("NVIDIA A40", "A40", 48, 44, 35, 24, 9, 48),
    Gpu("NVIDIA GeForce RTX 4090", "RTX 4090", 24, 74, 34, 38, 5, 29),
    Gpu("NVIDIA A100 80GB PCIe", "A100 PCIe", 80, 139, 119, 82, 8, 117),
    Gpu("NVIDIA H100 80GB HBM3", "H100 SXM", 80, 329, 269, 175, 20, 125),
)
DATA_CENTERS = ("EU-RO-1", "US-KS-2", "CA-MTL-1")


def type_name(gpu_id: str, count: int, cloud_type: str) -> str:
    """`NVIDIA A40`, `2x NVIDIA A40`, `NVIDIA A40 (community)`."""
    several = f"{count}x " if count > 1 else ""
    return several + gpu_id + (" (community)" if cloud_type == COMMUNITY else "")


def _types(gpu: Gpu, cloud_type: str, cents: int) -> list[MachineType]:
    return [
        MachineType(
            name=type_name(gpu.id, count, cloud_type),
            price_microusd_per_hour=cents * count * 10_000,
            spot_microusd_per_hour=min(gpu.spot, cents) * count * 10_000,
            vcpus=gpu.vcpus * count,
            memory_gib=gpu.memory_per_gpu_gib * count,
            gpu_kind=gpu.id,
            gpu_count=count,
            gpu_memory_gib=gpu.memory_gib,
            disk_gib=50,
        )
        for count in COUNTS
    ]


VENDOR = Vendor(
    name="runpod",
    regions=dict.fromkeys(DATA_CENTERS, ()),
    types=tuple(
        kind
        for gpu in GPUS
        for kind in (
            *_types(gpu, SECURE, gpu.secure),
            *(_types(gpu, COMMUNITY, gpu.community) if gpu.community else ()),
        )
    ),
    on_halt="off",  # a container cannot power its machine down: it is billed on
    credentials={"sim-runpod-key": ""},
)


def gpu_json(gpu: Gpu) -> dict[str, Any]:
    """As GraphQL's GpuType has it (graphql-spec.runpod.io), dollars an hour."""
    community = gpu.community / 100 if gpu.community else None
    spot = gpu.spot / 100
    return {
        "id": gpu.id,
        "displayName": gpu.title,
        "manufacturer": "Nvidia",
        "memoryInGb": gpu.memory_gib,
        "secureCloud": True,
        "communityCloud": community is not None,
        "securePrice": gpu.secure / 100,
        "communityPrice": community,
        "secureSpotPrice": spot,
        "communitySpotPrice": spot if community else None,
        "maxGpuCount": COUNTS[-1],
        "maxGpuCountSecureCloud": COUNTS[-1],
        "maxGpuCountCommunityCloud": COUNTS[-1] if community else 0,
        "minPodGpuCount": 1,
    }
