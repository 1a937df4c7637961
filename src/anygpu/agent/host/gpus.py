"""Read the GPUs of this machine from nvidia-smi."""

from __future__ import annotations

import subprocess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

CARD_FIELDS = "uuid,name,memory.total,driver_version"
STATS_FIELDS = "index,uuid,name,utilization.gpu,memory.used,memory.total,temperature.gpu,power.draw"


def query_command(fields: str) -> list[str]:
    """Return the nvidia-smi command that prints `fields` of each GPU as CSV."""
    return ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits"]


def parse_rows(output: str, fields: str) -> Iterator[list[str]]:
    """Yield the values of each GPU. Lines with a wrong number of values are skipped."""
    for line in output.splitlines():
        values = [value.strip() for value in line.split(",")]
        if len(values) == len(fields.split(",")):
            yield values


def query_gpus(timeout_s: float = 15.0) -> tuple[list[dict[str, Any]], str]:
    """Return the GPUs of this machine, and why nvidia-smi failed ("" if it did not)."""
    try:
        done = subprocess.run(
            query_command(CARD_FIELDS),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout_s,
            check=False,
        )
    except FileNotFoundError:
        return [], "nvidia-smi is not installed"
    except (OSError, subprocess.SubprocessError) as error:
        return [], f"nvidia-smi failed: {error}"
    output = done.stdout.decode("utf-8", "replace")
    if done.returncode:
        return [], f"nvidia-smi says: {output.strip().splitlines()[0] if output.strip() else done.returncode}"
    return list(_parse_cards(output)), ""


def _parse_cards(output: str) -> Iterator[dict[str, Any]]:
    for uuid, name, memory, driver in parse_rows(output, CARD_FIELDS):
        memory_mib = _parse_number(memory)
        if memory_mib is not None:
            yield {"uuid": uuid, "kind": name, "memory_gib": round(memory_mib / 1024, 1), "driver": driver}


def parse_gpu_stats(output: str) -> list[dict[str, Any]]:
    """Parse nvidia-smi output for STATS_FIELDS. A value that the GPU does not report (`[N/A]`) becomes None."""
    stats = []
    for index, uuid, name, *values in parse_rows(output, STATS_FIELDS):
        use, used_mib, total_mib, celsius, watts = map(_parse_number, values)
        stats.append(
            {
                "index": int(_parse_number(index) or 0),
                "uuid": uuid,
                "name": name,
                "use": None if use is None else use / 100,
                "memory_used": None if used_mib is None else int(used_mib * 2**20),
                "memory_total": None if total_mib is None else int(total_mib * 2**20),
                "temperature_c": celsius,
                "power_w": watts,
            }
        )
    return stats


def _parse_number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
