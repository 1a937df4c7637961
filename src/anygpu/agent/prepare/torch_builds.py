"""Choose the build of torch for the GPU of this machine and its driver.

The requirement `torch==2.12.0+auto` means "this version, in a build that works here". torch's default build is
for the newest CUDA. If the driver or the GPU is too old for it, a build for an older CUDA is installed from
PyTorch's index.
"""

from __future__ import annotations

import os
import re

from anygpu.agent.prepare.torch_check import MIN_DRIVER, CudaGpu, command_output, query_cuda_gpus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    T = TypeVar("T")

LABEL = "+auto"
INDEX = "https://download.pytorch.org/whl/"
# From this version of torch on, its default build is for this major version of CUDA.
DEFAULT_CUDA = (((2, 11), 13), ((2, 1), 12), ((1, 13), 11))
# From this version of torch on, its default build supports GPUs from this compute capability on.
DEFAULT_CAPABILITY = (((2, 11), (7, 5)), ((2, 8), (7, 0)))
# Builds in PyTorch's index: major version of CUDA, first and last version of torch, name.
BUILDS = (
    (12, (2, 6), (2, 99), "cu126"),
    (12, (2, 1), (2, 5), "cu121"),
    (11, (2, 0), (2, 7), "cu118"),
)
_TORCH = re.compile(r"torch==(\d+)\.(\d+)")


def query_gpu() -> CudaGpu | None:
    """Return the first GPU of this machine; None if there is none."""
    return next(iter(query_cuda_gpus(command_output(dict(os.environ)))), None)


def with_builds(requirements: list[str], get_gpu: Callable[[], CudaGpu | None] = query_gpu) -> list[str]:
    """Replace the label `+auto` by that of a build that works with the GPU and its driver.

    The label is removed if the default build works, or if no build is known to work. In the second case the
    check of torch after the installation says what is wrong.
    """
    if not any(each.endswith(LABEL) for each in requirements):
        return requirements
    build = choose_build(requirements, get_gpu())
    chosen = [
        each[: -len(LABEL)] + (f"+{build}" if build else "") if each.endswith(LABEL) else each
        for each in requirements
    ]
    return ["--extra-index-url", INDEX + build, *chosen] if build else chosen


def choose_build(requirements: list[str], gpu: CudaGpu | None) -> str:
    """Return the build of torch to install, such as `cu126`; empty for the default build."""
    version = next((_version(each) for each in requirements if _TORCH.match(each)), None)
    driver = gpu.driver.split(".")[0] if gpu is not None else ""
    if gpu is None or version is None or not driver.isdigit():
        return ""
    cuda = _newest_of(DEFAULT_CUDA, version, 0)
    has_kernels = gpu.capability is None or gpu.capability >= _newest_of(DEFAULT_CAPABILITY, version, (0, 0))
    if int(driver) >= MIN_DRIVER.get(cuda, 0) and has_kernels:
        return ""
    able = max((each for each, needed in MIN_DRIVER.items() if int(driver) >= needed), default=0)
    return next((name for each, first, last, name in BUILDS if each <= able and first <= version <= last), "")


def _newest_of(table: tuple[tuple[tuple[int, int], T], ...], version: tuple[int, int], otherwise: T) -> T:
    """Return the value for `version`: that of the newest entry in the table that is not newer than `version`."""
    return next((value for since, value in table if version >= since), otherwise)


def _version(requirement: str) -> tuple[int, int]:
    found = _TORCH.match(requirement)
    return (int(found[1]), int(found[2])) if found else (0, 0)
