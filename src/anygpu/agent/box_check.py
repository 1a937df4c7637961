"""What this machine has and lacks: for whoever adds it, and for placing work on it."""

from __future__ import annotations

import getpass
import os
import shutil
import subprocess
import sys

from anygpu.agent import box_slots

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

GIB = 2**30
QUERY = ["nvidia-smi", "--query-gpu=uuid,name,memory.total,driver_version", "--format=csv,noheader,nounits"]
TOOLS = ("uv", "pip3", "pip", "docker", "podman")


def check(home: str, cpu_count: int = 0) -> dict[str, Any]:
    cards, problem = gpus()
    cpus = cpu_count or os.cpu_count() or 1
    os.makedirs(home, mode=0o700, exist_ok=True)
    system = os.uname()
    return {
        "hostname": system.nodename,
        "system": f"{system.sysname} {system.machine}",
        "user": _user(),
        "python": sys.version.split()[0],
        "executable": sys.executable,
        "gpus": cards,
        "gpu_problem": problem,
        "cpus": cpus,
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIB, 1),
        "disk_free_gib": round(shutil.disk_usage(home).free / GIB, 1),
        "tools": {tool: shutil.which(tool, path=_path()) is not None for tool in TOOLS},
        "venv": _can_make_environments(),
        "free_gpus": box_slots.free(box_slots.gpu_slots([card["uuid"] for card in cards])) if cards else [],
        "free_cpus": len(box_slots.free(box_slots.cpu_slots(os.path.join(home, "slots"), cpus))),
    }


def gpus(timeout_s: float = 15.0) -> tuple[list[dict[str, Any]], str]:
    """The GPUs nvidia-smi knows, and what is wrong when it knows none."""
    try:
        done = subprocess.run(
            QUERY, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=timeout_s, check=False
        )
    except FileNotFoundError:
        return [], "nvidia-smi is not installed"
    except (OSError, subprocess.SubprocessError) as error:
        return [], f"nvidia-smi failed: {error}"
    said = done.stdout.decode("utf-8", "replace")
    if done.returncode:
        return [], f"nvidia-smi says: {said.strip().splitlines()[0] if said.strip() else done.returncode}"
    return [card for card in map(_card, said.splitlines()) if card], ""


def _card(line: str) -> dict[str, Any] | None:
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


def _path() -> str:
    own = os.path.join(os.path.expanduser("~"), ".local", "bin")
    return os.pathsep.join([os.environ.get("PATH") or os.defpath, own])


def _can_make_environments() -> bool:
    """Debian's python3 has `venv` but not `ensurepip` until python3-venv is installed."""
    from importlib.util import find_spec

    return find_spec("venv") is not None and find_spec("ensurepip") is not None


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
