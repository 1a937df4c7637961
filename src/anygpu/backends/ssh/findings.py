"""What a box lacks, in words for the person who can put it right."""

from collections.abc import Mapping
from typing import Any

ROOM_GIB = 5.0
GET_UV = "curl -LsSf https://astral.sh/uv/install.sh | sh"


def lacking(facts: Mapping[str, Any]) -> list[str]:
    """One sentence each; empty when nothing is missing."""
    found = [_gpu(facts), _room(facts), _environments(facts)]
    return [sentence for sentence in found if sentence]


def _gpu(facts: Mapping[str, Any]) -> str:
    if facts["gpus"]:
        return ""
    why = facts["gpu_problem"] or "nvidia-smi lists none"
    return f"no GPU: {why}. If it has an NVIDIA card, install the driver; other jobs can run all the same"


def _room(facts: Mapping[str, Any]) -> str:
    free_gib = facts["disk_free_gib"]
    if free_gib >= ROOM_GIB:
        return ""
    return f"only {free_gib:g} GiB free in the home directory: environments and checkpoints need {ROOM_GIB:g} GiB"


def _environments(facts: Mapping[str, Any]) -> str:
    if facts["tools"]["uv"] or facts["venv"]:
        return ""
    return f"requirements cannot be installed: install uv ({GET_UV}), or apt install python3-venv"


def summary(facts: Mapping[str, Any]) -> str:
    """What it has, in one line."""
    kinds = [f"{card['kind']} {card['memory_gib']:g} GiB" for card in facts["gpus"]]
    cards = ", ".join(f"{kinds.count(kind)} × {kind}" for kind in dict.fromkeys(kinds))
    drivers = ", ".join(dict.fromkeys(card["driver"] for card in facts["gpus"]))
    parts = [
        f"{cards} (driver {drivers})" if cards else "no GPU",
        f"{facts['cpus']} CPUs",
        f"{facts['memory_gib']:g} GiB memory",
        f"{facts['disk_free_gib']:g} GiB free disk",
        f"Python {facts['python']}",
    ]
    return ", ".join(parts)
