"""Check whether the torch version that a job installs supports a GPU and its driver.

Sources: PyTorch's support matrices for the wheels that pip installs by default (pytorch/pytorch:
RELEASE.md, issues 157517, 172352, 172663), and NVIDIA's table of the oldest driver for each CUDA version
(docs.nvidia.com, "Minor Version Compatibility").
"""

import re
from collections.abc import Iterable
from functools import lru_cache

from anygpu.agent.prepare.torch_builds import DEFAULT_CUDA
from anygpu.agent.prepare.torch_check import MIN_DRIVER
from anygpu.plan.hardware.gpus import GpuSpec

TorchVersion = tuple[int, int]
NEWEST_TORCH: TorchVersion = (2, 13)
# Last minor version of each finished major version.
LAST_VERSIONS: dict[int, TorchVersion] = {0: (0, 4), 1: (1, 13)}
# From this version on, default wheels support compute capabilities from the first to the second value.
DEFAULT_CAPABILITIES: tuple[tuple[TorchVersion, float, float], ...] = (
    ((2, 11), 7.5, 12.1),
    ((2, 8), 7.0, 12.1),
    ((2, 1), 5.0, 9.0),
    ((1, 13), 3.7, 8.9),
    ((0, 0), 3.5, 7.5),
)
BUILD_CAPABILITIES = {
    "cu118": (5.0, 9.0),
    "cu121": (5.0, 9.0),
    "cu124": (5.0, 9.0),
    "cu126": (5.0, 9.0),
    "cu130": (7.5, 12.1),
    "cu132": (7.5, 12.1),
}
# For older versions of a build, the default of this version applies.
BUILD_SINCE = {"cu128": (2, 8), "cu129": (2, 8)}
_TORCH = re.compile(r"\s*torch(?![\w.-])\s*(\[[^]]*\])?(?P<rest>[^;#]*)", re.IGNORECASE)
_PIN = re.compile(
    r"(?P<how>===?|~=|<=?)\s*v?(?P<major>\d+)(?:\.(?P<minor>\d+))?(?:\.(?P<patch>\d+))?(?P<any>\.\*)?"
    r"[\w.]*(?:\+(?P<build>\w+))?"
)
_INDEX = re.compile(r"\s*(?:-i|--index-url|--extra-index-url)[\s=]+\S*/whl/(?P<build>\w+)")


def torch_mismatch(requirements: Iterable[str], gpu: GpuSpec | None, driver: str = "") -> str:
    """Return why the required torch does not run on the GPU or its driver.

    Return an empty string if it runs, or if the requirements or the GPU do not tell.
    """
    torch = _requested_torch(tuple(requirements))
    if torch is None:
        return ""
    version, build = torch
    return (_capability_mismatch(version, build, gpu) if gpu else "") or _driver_mismatch(
        version, build, driver
    )


@lru_cache(maxsize=16)
def _requested_torch(requirements: tuple[str, ...]) -> tuple[TorchVersion, str] | None:
    """Return the requested version and build of torch.

    Return None if the requirements do not name torch, or install it from a file or URL. If they name a
    package index of PyTorch such as `.../whl/cu126`, that index determines the build.
    """
    asked = next((found for line in requirements if (found := _TORCH.match(line))), None)
    if asked is None or "@" in asked["rest"]:
        return None
    index = next((found["build"] for line in requirements if (found := _INDEX.match(line))), "")
    version, build = _parse_version(asked["rest"])
    return version, build or index


def _capability_mismatch(version: TorchVersion, build: str, gpu: GpuSpec) -> str:
    if not re.fullmatch(r"\d+\.\d+", gpu.capability) or (build and not _cuda(version, build)):
        return ""
    least, most = BUILD_CAPABILITIES.get(build) or _default_capabilities(
        max(version, BUILD_SINCE.get(build, version))
    )
    capability = float(gpu.capability)
    if least <= capability <= most:
        return ""
    advice = _downgrade_advice(capability) if capability < least else "use torch 2.8 or newer"
    return (
        f"has a {gpu.architecture} GPU, for which {_describe_torch(version, build)} has no kernels; {advice}"
    )


def _driver_mismatch(version: TorchVersion, build: str, driver: str) -> str:
    """Return why the driver is too old for the torch build.

    Return an empty string if the driver is new enough, or if its version is unknown.
    """
    driver_major, cuda = driver.split(".")[0], _cuda(version, build)
    needs = MIN_DRIVER.get(cuda, 0)
    if not driver_major.isdecimal() or int(driver_major) >= needs:
        return ""
    return (
        f"has driver {driver}; {_describe_torch(version, build)} is built for CUDA {cuda}, which needs"
        f" driver {needs} or newer: update the driver{_driver_advice(int(driver_major))}"
    )


def _driver_advice(driver_major: int) -> str:
    """Return which torch to pin instead of updating the driver, to end a sentence; empty if none works."""
    if driver_major >= MIN_DRIVER[12]:
        return ", or pin torch<2.11, or a cu126 wheel"
    return ", or pin a cu118 wheel of torch<2.8" if driver_major >= MIN_DRIVER[11] else ""


def _cuda(version: TorchVersion, build: str) -> int:
    """Return the major CUDA version that a wheel is built for; 0 if unknown or without CUDA."""
    if build:
        return int(build[2:4]) if re.fullmatch(r"cu\d{3}", build) else 0
    return next((cuda for since, cuda in DEFAULT_CUDA if version >= since), 0)


def _describe_torch(version: TorchVersion, build: str) -> str:
    return f"torch {version[0]}.{version[1]}" + (f" ({build})" if build else "")


def _downgrade_advice(capability: float) -> str:
    if capability < 5:
        return "pin torch<2.1"
    return f"pin torch<{'2.11' if capability >= 7 else '2.8'}, or a cu126 wheel"


def _parse_version(rest: str) -> tuple[TorchVersion, str]:
    """Return the highest version that a requirement allows, and the build it names, such as `cu126`."""
    pins = list(_PIN.finditer(rest))
    if not pins:
        return NEWEST_TORCH, ""
    return min(map(_highest_version, pins)), next((pin["build"] for pin in pins if pin["build"]), "")


def _highest_version(pin: re.Match[str]) -> TorchVersion:
    """Return the highest (major, minor) version that one version specifier allows.

    For `~=2.1` and `==2.*` this is the newest 2.x, for `~=2.1.0` it is 2.1, for `<2.8` it is 2.7, and for
    `<2.8.1` it is 2.8.
    """
    operator, major, minor = pin["how"], int(pin["major"]), int(pin["minor"] or 0)
    if (operator == "~=" and pin["patch"] is None) or (pin["any"] and pin["minor"] is None):
        return _last_of(major)
    if operator != "<" or int(pin["patch"] or 0):
        return major, minor
    return (major, minor - 1) if minor else _last_of(max(0, major - 1))


def _last_of(major: int) -> TorchVersion:
    return LAST_VERSIONS.get(major, NEWEST_TORCH)


def _default_capabilities(version: TorchVersion) -> tuple[float, float]:
    return next((least, most) for since, least, most in DEFAULT_CAPABILITIES if version >= since)
