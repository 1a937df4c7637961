"""Check before training that GPU, driver and torch work together.

Two rules apply. A driver supports every CUDA release of its own major version and of older ones (NVIDIA,
"CUDA Compatibility", minor version compatibility). A wheel of torch runs only on the GPU architectures it was
compiled for: since torch 2.11 the default wheels do not include Volta, the cu126 wheels still do
(pytorch/pytorch issue 172352). A job is refused only if torch itself confirms the problem, because
compatibility packages and custom builds can make a combination work that these rules exclude.
"""

from __future__ import annotations

import json

from anygpu.agent.host.gpus import parse_rows, query_command
from anygpu.agent.prepare.queries import query_output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Optional

    RunQuery = Callable[
        [list[str]], Optional[str]
    ]  # runs a command; returns its output, or None if it failed

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
COMMON_CAPABILITIES = ((7, 5), (9, 0))  # in every wheel since CUDA 11.8: from Turing to Hopper
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
    """Return a function that runs a command with `env` and returns its output."""

    def run(argv: list[str]) -> str | None:
        return query_output(argv, timeout_s=QUERY_TIMEOUT_S, env=env)

    return run


def check_torch(python: str, run_query: RunQuery) -> tuple[str, str]:
    """Return (problem, warning): a reason not to start the job, and a note for its log.

    Both are empty if everything works together, or if that cannot be determined.
    """
    gpus = query_cuda_gpus(run_query)
    torch = _parse_last_line(run_query([python, "-c", TORCH_VERSION_SCRIPT])) if gpus else None
    if not torch or not torch.get("__version__") or torch.get("hip"):
        return "", ""
    version = str(torch["__version__"])
    if not torch.get("cuda"):
        return (
            "",
            f"torch {version} is a CPU-only build and will not use this machine's {gpus[0].name}",
        )
    cuda = str(torch["cuda"])
    if not any(_driver_problem(gpu, version, cuda) or _may_lack_kernels(gpu) for gpu in gpus):
        return "", ""
    answer = _parse_last_line(run_query([python, "-c", TORCH_CUDA_SCRIPT]))
    return ("" if answer is None else _confirm_problem(gpus, version, cuda, answer)), ""


def _confirm_problem(gpus: list[CudaGpu], version: str, cuda: str, answer: dict[str, Any]) -> str:
    for gpu in gpus:
        driver_problem = "" if answer["available"] else _driver_problem(gpu, version, cuda)
        problem = driver_problem or _architecture_problem(gpu, version, answer["archs"])
        if problem:
            return problem
    return ""


def _driver_problem(gpu: CudaGpu, version: str, cuda: str) -> str:
    major = int(cuda.split(".")[0])
    needed, driver = MIN_DRIVER.get(major, 0), _driver_major(gpu.driver)
    if driver >= needed:
        return ""
    able = next((newest for oldest, newest in CUDA_BY_DRIVER if driver >= oldest), "10")
    return (
        f"the driver of this machine, {gpu.driver}, supports CUDA {able}; torch {version} is built for CUDA {cuda}, "
        f"which needs driver {needed} or newer. Choose an image with a newer driver, or {_wheel_advice(able)}."
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
        advice = "Choose a newer GPU, or install the cu126 build of torch, which supports older ones"
    else:
        advice = "Install a newer build of torch (cu128 or later)"
    return f"torch {version} is built for {built}, not for this machine's {gpu.name} ({own}). {advice}."


def _supports(arch: str, capability: tuple[int, int]) -> bool:
    """Return whether code compiled for `arch` runs on a GPU of this compute capability.

    `sm_` (machine code) needs the same major version; `compute_` (PTX) runs on any newer GPU.
    """
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


def query_cuda_gpus(run_query: RunQuery) -> list[CudaGpu]:
    """Return the GPUs of this machine with their driver and, if the driver reports it, compute capability."""
    # Drivers before 510 do not know `compute_cap`.
    for fields in ("name,driver_version,compute_cap", "name,driver_version"):
        output = run_query(query_command(fields))
        if output is not None:
            rows = parse_rows(output, fields)
            return [CudaGpu(name, driver, _parse_capability(rest)) for name, driver, *rest in rows]
    return []


def _parse_capability(values: list[str]) -> tuple[int, int] | None:
    major, _, minor = values[0].partition(".") if values else ("", "", "")
    return (int(major), int(minor)) if major.isdigit() and minor.isdigit() else None


def _driver_major(version: str) -> int:
    major = version.split(".")[0]
    return int(major) if major.isdigit() else max(MIN_DRIVER.values())


def _parse_last_line(output: str | None) -> dict[str, Any] | None:
    """Parse the last line of `output` as JSON; None if it is not JSON. Libraries may print other lines before it."""
    try:
        value = json.loads(output.strip().splitlines()[-1]) if output and output.strip() else None
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
