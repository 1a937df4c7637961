"""Report what this machine has: GPUs, CPUs, memory, disk, tools, and the GPUs and CPUs that no attempt uses."""

from __future__ import annotations

import getpass
import os
import shutil
import sys

from anygpu.agent.host import slots
from anygpu.agent.host.gpus import query_gpus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

GIB = 2**30
TOOLS = ("uv", "pip3", "pip", "docker", "podman")


def check_host(home: str, cpu_count: int = 0) -> dict[str, Any]:
    cards, problem = query_gpus()
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
        "tools": {tool: shutil.which(tool, path=_tool_path()) is not None for tool in TOOLS},
        "venv": _can_create_venv(),
        "free_gpus": slots.free_labels(slots.gpu_slots([card["uuid"] for card in cards])) if cards else [],
        "free_cpus": len(slots.free_labels(slots.cpu_slots(os.path.join(home, "slots"), cpus))),
    }


def _tool_path() -> str:
    own = os.path.join(os.path.expanduser("~"), ".local", "bin")
    return os.pathsep.join([os.environ.get("PATH") or os.defpath, own])


def _can_create_venv() -> bool:
    """Return whether Python can create virtual environments. On Debian this needs the package python3-venv."""
    from importlib.util import find_spec

    return find_spec("venv") is not None and find_spec("ensurepip") is not None


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
