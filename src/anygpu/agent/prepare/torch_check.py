"""Do GPU, driver and torch fit together? Said before training, in words, instead of by a kernel that cannot be loaded.

Two facts decide. A driver supports every CUDA release of its own major version and of older ones (NVIDIA, "CUDA
Compatibility", minor version compatibility). A wheel runs on the architectures it was compiled for: Volta left the
default wheels with torch 2.11 and stays in the cu126 ones (pytorch/pytorch issue 172352). What looks like a misfit is
asked of torch itself before it stops anybody: compatibility packages and own builds may know better.
"""

from __future__ import annotations

import json
import subprocess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Optional

    RunQuery = Callable[[list[str]], Optional[str]]  # runs a command: what it said, or None when it failed

MIN_DRIVER = {11: 450, 12: 525, 13: 580}
CUDA_BY_DRIVER = [
    (580, "13.0"),
    (575, "12.9"),
    (570, "12.8"),
    (560, "12.6"),
    (550, "12.4"),
    (535, "12.2"),
    (525, "12.0"),
    (520, "11.8"),
    (510, "11.6"),
    (470, "11.4"),
    (460, "11.2"),
    (450, "11.0"),
]
COMMON_CAPABILITIES = ((7, 5), (9, 0))  # from Turing to Hopper, since CUDA 11.8
QUERY_TIMEOUT_S = 120.0

TORCH_VERSION_SCRIPT = """
import importlib.util, json, os
spec, found = importlib.util.find_spec("torch"), {}
if spec is not None and spec.origin:
    with open(os.path.join(os.path.dirname(spec.origin), "version.py")) as file:
        exec(file.read(), found)
print(json.dumps({name: found.get(name) for name in ("__version__", "cuda", "hip")}))
"""
TORCH_CUDA_SCRIPT = """
import json, torch
archs = (torch._C._cuda_getArchFlags() or "").split()
print(json.dumps({"available": torch.cuda.is_available(), "archs": archs}))
"""


class CudaGpu:
    __slots__ = ("capability", "driver", "name")

    def __init__(self, name: str, driver: str, capability: tuple[int, int] | None) -> None:
        self.name, self.driver, self.capability = name, driver, capability


def command_output(env: dict[str, str]) -> RunQuery:
    def ask(argv: list[str]) -> str | None:
        try:
            ran = subprocess.run(
                argv,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=QUERY_TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return ran.stdout.decode("utf-8", "replace") if ran.returncode == 0 else None

    return ask


def check_torch(python: str, ask: RunQuery) -> tuple[str, str]:
    """(what is wrong, what is worth a warning); both empty when it fits, and when it cannot be told."""
    gpus = _query_gpus(ask)
    torch = _parse_last_line(ask([python, "-c", TORCH_VERSION_SCRIPT])) if gpus else None
    if not torch or not torch.get("__version__") or torch.get("hip"):
        return "", ""
    version = str(torch["__version__"])
    if not torch.get("cuda"):
        return (
            "",
            f"torch {version} is built for the CPU alone: it will not use this machine's {gpus[0].name}",
        )
    cuda = str(torch["cuda"])
    doubts = [
        doubt
        for gpu in gpus
        for doubt in (_driver_problem(gpu, version, cuda), _may_lack_kernels(gpu))
        if doubt
    ]
    if not doubts:
        return "", ""
    answer = _parse_last_line(ask([python, "-c", TORCH_CUDA_SCRIPT]))
    return ("" if answer is None else _confirm_problem(gpus, version, cuda, answer)), ""


def _confirm_problem(gpus: list[CudaGpu], version: str, cuda: str, answer: dict[str, Any]) -> str:
    for gpu in gpus:
        old = "" if answer["available"] else _driver_problem(gpu, version, cuda)
        found = old or _architecture_problem(gpu, version, answer["archs"])
        if found:
            return found
    return ""


def _driver_problem(gpu: CudaGpu, version: str, cuda: str) -> str:
    major = int(cuda.split(".")[0])
    needed, driver = MIN_DRIVER.get(major, 0), _driver_major(gpu.driver)
    if driver >= needed:
        return ""
    able = next((newest for oldest, newest in CUDA_BY_DRIVER if driver >= oldest), "10")
    return (
        f"this machine's driver {gpu.driver} supports CUDA {able}; torch {version} is built for CUDA {cuda}, "
        f"which needs driver {needed} or newer: choose an image with a newer driver, or {_wheel_advice(able)}"
    )


def _wheel_advice(able: str) -> str:
    if able.startswith("12"):
        return "install a build of torch for CUDA 12 (cu126)"
    return "pin torch==2.7.1 in its cu118 build, the last one for CUDA 11"


def _architecture_problem(gpu: CudaGpu, version: str, archs: list[str]) -> str:
    if gpu.capability is None or not archs or any(_supports(arch, gpu.capability) for arch in archs):
        return ""
    own = "sm_{}{}".format(*gpu.capability)
    built = ", ".join(archs)
    if gpu.capability < COMMON_CAPABILITIES[0]:
        way_out = "choose a newer GPU, or install the cu126 build of torch, which still has the older ones"
    else:
        way_out = "install a newer build of torch (cu128 or later)"
    return f"this machine's {gpu.name} ({own}) is not among what torch {version} is built for ({built}): {way_out}"


def _supports(arch: str, capability: tuple[int, int]) -> bool:
    """Code runs on its own major version from its minor version on; PTX (`compute_`) on everything newer."""
    kind, _, digits = arch.partition("_")
    digits = digits.rstrip("af")
    if not digits.isdigit():
        return False
    built = int(digits[:-1]), int(digits[-1])
    if kind == "compute":
        return built <= capability
    return built[0] == capability[0] and built[1] <= capability[1]


def _may_lack_kernels(gpu: CudaGpu) -> bool:
    return (
        gpu.capability is not None and not COMMON_CAPABILITIES[0] <= gpu.capability <= COMMON_CAPABILITIES[1]
    )


def _query_gpus(ask: RunQuery) -> list[CudaGpu]:
    """Drivers before 510 do not know `compute_cap`."""
    for fields in ("name,driver_version,compute_cap", "name,driver_version"):
        said = ask(["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"])
        if said is not None:
            lines = [[part.strip() for part in line.split(",")] for line in said.splitlines() if line.strip()]
            return [
                CudaGpu(line[0], line[1], _parse_capability(line[2:])) for line in lines if len(line) >= 2
            ]
    return []


def _parse_capability(said: list[str]) -> tuple[int, int] | None:
    major, _, minor = said[0].partition(".") if said else ("", "", "")
    return (int(major), int(minor)) if major.isdigit() and minor.isdigit() else None


def _driver_major(version: str) -> int:
    major = version.split(".")[0]
    return int(major) if major.isdigit() else max(MIN_DRIVER.values())


def _parse_last_line(said: str | None) -> dict[str, Any] | None:
    """The last line: a library may have greeted before it."""
    try:
        found = json.loads(said.strip().splitlines()[-1]) if said and said.strip() else None
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
