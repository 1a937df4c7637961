"""RunPod's GPU types in its two clouds (secure and community).

A machine type is 1, 2, 4 or 8 GPUs of one type.
"""

from dataclasses import dataclass
from typing import Any

from anygpu.cloudsim.vendor import SimMachineType, SimVendor

SECURE, COMMUNITY = "SECURE", "COMMUNITY"
COUNTS = (1, 2, 4, 8)


@dataclass(frozen=True, slots=True)
class RunPodGpu:
    """A GPU type. Prices are in cents per hour for one GPU; 0 if that cloud does not offer the GPU."""

    id: str
    title: str
    memory_gib: int
    secure_cents: int
    community_cents: int
    vcpus: int
    memory_per_gpu_gib: int


GPUS = (
    RunPodGpu("NVIDIA RTX A4000", "RTX A4000", 16, 25, 17, 6, 35),
    RunPodGpu("NVIDIA L4", "L4", 24, 49, 0, 8, 45),
    RunPodGpu("NVIDIA A40", "A40", 48, 44, 35, 9, 48),
    RunPodGpu("NVIDIA GeForce RTX 4090", "RTX 4090", 24, 74, 34, 5, 29),
    RunPodGpu("NVIDIA A100 80GB PCIe", "A100 PCIe", 80, 139, 119, 8, 117),
    RunPodGpu("NVIDIA H100 80GB HBM3", "H100 SXM", 80, 329, 269, 20, 125),
)
DATA_CENTERS = ("EU-RO-1", "US-KS-2", "CA-MTL-1")


def type_name(gpu_id: str, count: int, cloud: str) -> str:
    """Return the name of a machine type: `NVIDIA A40`, `2x NVIDIA A40`, `NVIDIA A40 (community)`."""
    several = f"{count}x " if count > 1 else ""
    return several + gpu_id + (" (community)" if cloud == COMMUNITY else "")


def _types(gpu: RunPodGpu, cloud: str, cents: int) -> list[SimMachineType]:
    return [
        SimMachineType(
            name=type_name(gpu.id, count, cloud),
            price_microusd_per_hour=cents * count * 10_000,
            vcpus=gpu.vcpus * count,
            memory_gib=gpu.memory_per_gpu_gib * count,
            gpu_kind=gpu.id,
            gpu_count=count,
            gpu_memory_gib=gpu.memory_gib,
            disk_gib=50,
        )
        for count in COUNTS
        if cents
    ]


VENDOR = SimVendor(
    name="runpod",
    regions=dict.fromkeys(DATA_CENTERS, ()),
    types=tuple(
        kind
        for gpu in GPUS
        for kind in (*_types(gpu, SECURE, gpu.secure_cents), *_types(gpu, COMMUNITY, gpu.community_cents))
    ),
    on_halt="off",  # a container cannot shut down its host: the pod is still billed
    credentials={"sim-runpod-key": ""},
)


def gpu_json(gpu: RunPodGpu) -> dict[str, Any]:
    """Return the entry of a GPU in the API's list of GPUs.

    `secure` and `community` tell which clouds offer the GPU. The entry has a price for both clouds in any
    case.
    """
    most = COUNTS[-1]
    return {
        "id": gpu.id,
        "name": gpu.title,
        "pool": None,
        "manufacturer": "NVIDIA",
        "memory": gpu.memory_gib,
        "secure": True,
        "community": bool(gpu.community_cents),
        "price": {
            "secure": gpu.secure_cents / 100,
            "community": (gpu.community_cents or gpu.secure_cents) / 100,
        },
        "maxCount": {"secure": most, "community": most if gpu.community_cents else 0},
    }
