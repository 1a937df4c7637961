"""Read the GPUs of this machine from nvidia-smi."""

from __future__ import annotations

import subprocess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any
QUERY_COMMAND = [
    "nvidia-smi",
    "--query-gpu=uuid,name,memory.total,driver_version",
    "--format=csv,noheader,nounits",
]


def query_gpus(timeout_s: float = 15.0) -> tuple[list[dict[str, Any]], str]:
    """The GPUs nvidia-smi knows, and what is wrong when it knows none."""
    try:
        done = subprocess.run(
            QUERY_COMMAND, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=timeout_s, check=False
        )
    except FileNotFoundError:
        return [], "nvidia-smi is not installed"
    except (OSError, subprocess.SubprocessError) as error:
        return [], f"nvidia-smi failed: {error}"
    said = done.stdout.decode("utf-8", "replace")
    if done.returncode:
        return [], f"nvidia-smi says: {said.strip().splitlines()[0] if said.strip() else done.returncode}"
    return [card for card in map(_parse_gpu, said.splitlines()) if card], ""


def _parse_gpu(line: str) -> dict[str, Any] | None:
    fields = [field.strip() for field in line.split(",")]
    try:
        uuid, kind, memory_mib, driver = fields
        return {
            "uuid": uuid,
            "kind": kind,
            "memory_gib": round(float(memory_mib) / 1024, 1),
            "driver": driver,
        }
    except ValueError:
        return None


STATS_FIELDS = "index,uuid,name,utilization.gpu,memory.used,memory.total,temperature.gpu,power.draw"


def parse_gpu_stats(said: str) -> list[dict[str, Any]]:
    """nvidia-smi's CSV. What a card does not know is `[N/A]`, and becomes None."""
    gpus = []
    for line in said.splitlines():
        fields = [field.strip() for field in line.split(",")]
        if len(fields) != len(STATS_FIELDS.split(",")):
            continue
        use, used_mib, total_mib, celsius, watts = (_parse_number(field) for field in fields[3:])
        gpus.append(
            {
                "index": int(_parse_number(fields[0]) or 0),
                "uuid": fields[1],
                "name": fields[2],
                "use": None if use is None else use / 100,
                "memory_used": None if used_mib is None else int(used_mib * 2**20),
                "memory_total": None if total_mib is None else int(total_mib * 2**20),
                "temperature_c": celsius,
                "power_w": watts,
            }
        )
    return gpus


def _parse_number(field: str) -> float | None:
    try:
        return float(field)
    except ValueError:
        return None
