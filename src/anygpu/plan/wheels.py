"""Whether the torch a job installs runs on a GPU and its driver: a wheel is built for some generations and one CUDA.

By PyTorch's support matrices for the wheels pip takes by default (pytorch/pytorch: RELEASE.md, issues 157517, 172352,
172663), and NVIDIA's table of the oldest driver for each CUDA (docs.nvidia.com, "Minor Version Compatibility").
"""

import re
from collections.abc import Iterable
from functools import lru_cache

from anygpu.agent.fit import OLDEST_DRIVER
from anygpu.plan.gpus import GpuSpec

Version = tuple[int, int]
NEWEST: Version = (2, 13)
# From this version on, default wheels serve capabilities from the first to the second.
DEFAULT: tuple[tuple[Version, float, float], ...] = (
    ((2, 11), 7.5, 12.1),
    ((2, 8), 7.0, 12.1),
    ((2, 1), 5.0, 9.0),
    ((1, 13), 3.7, 8.9),
    ((0, 0), 3.5, 7.5),
)
DEFAULT_CUDA: tuple[tuple[Version, int], ...] = (((2, 11), 13), ((2, 1), 12), ((1, 13), 11))
BUILT_FOR = {"cu118": (5.0, 9.0), "cu121": (5.0, 9.0), "cu124": (5.0, 9.0), "cu126": (5.0, 9.0)}
_TORCH = re.compile(r"\s*torch(?![\w.-])\s*(\[[^]]*\])?(?P<rest>[^;#]*)", re.IGNORECASE)
_PIN = re.compile(r"(?P<how>===?|~=|<=?)\s*v?(?P<major>\d+)\.(?P<minor>\d+)[\w.]*(?:\+(?P<build>\w+))?")


def misfit(requirements: Iterable[str], gpu: GpuSpec | None, driver: str = "") -> str:
    """Why the torch among these will not run on the GPU or its driver; empty when it will, or nothing says."""
    torch = _torch(tuple(requirements))
    if torch is None:
        return ""
    version, build = torch
    return (_without_kernels(version, build, gpu) if gpu else "") or _old_driver(version, build, driver)


@lru_cache(maxsize=16)
def _torch(requirements: tuple[str, ...]) -> tuple[Version, str] | None:
    """The version and build that are asked for; the same for every place of a plan."""
    asked = next((found for line in requirements if (found := _TORCH.match(line))), None)
    return None if asked is None else _wanted(asked["rest"])


def _without_kernels(version: Version, build: str, gpu: GpuSpec) -> str:
    if not re.fullmatch(r"\d+\.\d+", gpu.capability):
        return ""
    least, most = BUILT_FOR.get(build) or _served(version)
    capability = float(gpu.capability)
    if least <= capability <= most:
        return ""
    todo = _older(capability) if capability < least else "take torch 2.8 or newer"
    return f"has a {gpu.architecture} GPU, for which {_named_torch(version, build)} has no kernels; {todo}"


def _old_driver(version: Version, build: str, driver: str) -> str:
    """Of a driver its first number counts; what cannot be read is given the benefit of the doubt."""
    has, cuda = driver.split(".")[0], _cuda(version, build)
    needs = OLDEST_DRIVER.get(cuda, 0)
    if not has.isdecimal() or int(has) >= needs:
        return ""
    older = (
        "pin torch<2.11, or a cu126 wheel"
        if int(has) >= OLDEST_DRIVER[12]
        else "pin a cu118 wheel of torch<2.8"
    )
    return (
        f"has driver {driver}; {_named_torch(version, build)} is built for CUDA {cuda}, which needs {needs} or newer:"
        f" update the driver, or {older}"
    )


def _cuda(version: Version, build: str) -> int:
    """The major version of CUDA a wheel is built for; 0 where it is none we know, or for no CUDA."""
    if build:
        return int(build[2:4]) if re.fullmatch(r"cu\d{3}", build) else 0
    return next((cuda for since, cuda in DEFAULT_CUDA if version >= since), 0)


def _named_torch(version: Version, build: str) -> str:
    return f"torch {version[0]}.{version[1]}" + (f" ({build})" if build else "")


def _older(capability: float) -> str:
    if capability < 5:
        return "pin torch<2.1"
    return f"pin torch<{'2.11' if capability >= 7 else '2.8'}, or a cu126 wheel"


def _wanted(rest: str) -> tuple[Version, str]:
    """The version a requirement ends at, and the build it names; without a limit the newest."""
    pins = list(_PIN.finditer(rest))
    if not pins:
        return NEWEST, ""
    versions = [_below(pin) if pin["how"] == "<" else _named(pin) for pin in pins]
    return min(versions), next((pin["build"] for pin in pins if pin["build"]), "")


def _named(pin: re.Match[str]) -> Version:
    return int(pin["major"]), int(pin["minor"])


def _below(pin: re.Match[str]) -> Version:
    major, minor = _named(pin)
    return (major, minor - 1) if minor else (max(0, major - 1), 99)


def _served(version: Version) -> tuple[float, float]:
    return next((least, most) for since, least, most in DEFAULT if version >= since)
