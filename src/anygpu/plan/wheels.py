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
LAST_OF: dict[int, Version] = {0: (0, 4), 1: (1, 13)}  # a major version that is over
# From this version on, default wheels serve capabilities from the first to the second.
DEFAULT: tuple[tuple[Version, float, float], ...] = (
    ((2, 11), 7.5, 12.1),
    ((2, 8), 7.0, 12.1),
    ((2, 1), 5.0, 9.0),
    ((1, 13), 3.7, 8.9),
    ((0, 0), 3.5, 7.5),
)
DEFAULT_CUDA: tuple[tuple[Version, int], ...] = (((2, 11), 13), ((2, 1), 12), ((1, 13), 11))
BUILT_FOR = {
    "cu118": (5.0, 9.0),
    "cu121": (5.0, 9.0),
    "cu124": (5.0, 9.0),
    "cu126": (5.0, 9.0),
    "cu130": (7.5, 12.1),
    "cu132": (7.5, 12.1),
}
AHEAD = {"cu128": (2, 8), "cu129": (2, 8)}  # older versions of these are as the default of this one
_TORCH = re.compile(r"\s*torch(?![\w.-])\s*(\[[^]]*\])?(?P<rest>[^;#]*)", re.IGNORECASE)
_PIN = re.compile(
    r"(?P<how>===?|~=|<=?)\s*v?(?P<major>\d+)(?:\.(?P<minor>\d+))?(?:\.(?P<patch>\d+))?(?P<any>\.\*)?"
    r"[\w.]*(?:\+(?P<build>\w+))?"
)
_INDEX = re.compile(r"\s*(?:-i|--index-url|--extra-index-url)[\s=]+\S*/whl/(?P<build>\w+)")


def misfit(requirements: Iterable[str], gpu: GpuSpec | None, driver: str = "") -> str:
    """Why the torch among these will not run on the GPU or its driver; empty when it will, or nothing says."""
    torch = _torch(tuple(requirements))
    if torch is None:
        return ""
    version, build = torch
    return (_without_kernels(version, build, gpu) if gpu else "") or _old_driver(version, build, driver)


@lru_cache(maxsize=16)
def _torch(requirements: tuple[str, ...]) -> tuple[Version, str] | None:
    """The version and build that are asked for; the same for every place of a plan. None: not torch, or a file of it.

    An index of PyTorch's own has the wheels of one build, and pip prefers them.
    """
    asked = next((found for line in requirements if (found := _TORCH.match(line))), None)
    if asked is None or "@" in asked["rest"]:
        return None
    index = next((found["build"] for line in requirements if (found := _INDEX.match(line))), "")
    version, build = _wanted(asked["rest"])
    return version, build or index


def _without_kernels(version: Version, build: str, gpu: GpuSpec) -> str:
    if not re.fullmatch(r"\d+\.\d+", gpu.capability) or (build and not _cuda(version, build)):
        return ""
    least, most = BUILT_FOR.get(build) or _served(max(version, AHEAD.get(build, version)))
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
    return (
        f"has driver {driver}; {_named_torch(version, build)} is built for CUDA {cuda}, which needs {needs} or newer:"
        f" update the driver{_for_driver(int(has))}"
    )


def _for_driver(has: int) -> str:
    """What else would do there."""
    if has >= OLDEST_DRIVER[12]:
        return ", or pin torch<2.11, or a cu126 wheel"
    return ", or pin a cu118 wheel of torch<2.8" if has >= OLDEST_DRIVER[11] else ""


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
    return min(map(_ends_at, pins)), next((pin["build"] for pin in pins if pin["build"]), "")


def _ends_at(pin: re.Match[str]) -> Version:
    """`~=2.1` and `==2.*` end with the last 2, `~=2.1.0` with 2.1; `<2.8` with 2.7, but `<2.8.1` with 2.8."""
    how, major, minor = pin["how"], int(pin["major"]), int(pin["minor"] or 0)
    if (how == "~=" and pin["patch"] is None) or (pin["any"] and pin["minor"] is None):
        return _last_of(major)
    if how != "<" or int(pin["patch"] or 0):
        return major, minor
    return (major, minor - 1) if minor else _last_of(max(0, major - 1))


def _last_of(major: int) -> Version:
    return LAST_OF.get(major, NEWEST)


def _served(version: Version) -> tuple[float, float]:
    return next((least, most) for since, least, most in DEFAULT if version >= since)
