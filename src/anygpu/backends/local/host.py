"""Resources of this machine: GPUs, memory, disk."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

GIB = 1024**3
NVIDIA_SMI = (
    "nvidia-smi",
    "--query-gpu=uuid,name,memory.total,driver_version",
    "--format=csv,noheader,nounits",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuCard:
    uuid: str
    kind: str
    memory_gib: float
    driver: str = ""


def gpu_cards(timeout_s: float = 10) -> tuple[GpuCard, ...]:
    """Return the GPUs that nvidia-smi lists; none if it is missing, fails or times out."""
    if shutil.which(NVIDIA_SMI[0]) is None:
        return ()
    try:
        done = subprocess.run(NVIDIA_SMI, capture_output=True, text=True, timeout=timeout_s, check=True)
    except (OSError, subprocess.SubprocessError):
        return ()
    return tuple(card for line in done.stdout.splitlines() if (card := _card(line)))


def _card(line: str) -> GpuCard | None:
    fields = [field.strip() for field in line.split(",")]
    if len(fields) != 4:
        return None
    uuid, kind, memory_mib, driver = fields
    try:
        return GpuCard(uuid=uuid, kind=kind, memory_gib=float(memory_mib) / 1024, driver=driver)
    except ValueError:
        return None


def memory_gib() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIB


def disk_gib(path: Path) -> float:
    return shutil.disk_usage(path).free / GIB
