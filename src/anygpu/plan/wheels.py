"""Whether the torch a job installs has kernels for a GPU: a wheel is built for some generations and fails on others.

By PyTorch's support matrices for the wheels pip takes by default (pytorch/pytorch: RELEASE.md, issues 157517, 172352).
"""

import re
from collections.abc import Iterable

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
BUILT_FOR = {"cu118": (5.0, 9.0), "cu121": (5.0, 9.0), "cu124": (5.0, 9.0), "cu126": (5.0, 9.0)}
_TORCH = re.compile(r"\s*torch(?![\w.-])\s*(\[[^]]*\])?(?P<rest>[^;#]*)", re.IGNORECASE)
_PIN = re.compile(r"(?P<how>===?|~=|<=?)\s*v?(?P<major>\d+)\.(?P<minor>\d+)[\w.]*(?:\+(?P<build>\w+))?")


def misfit(requirements: Iterable[str], gpu: GpuSpec) -> str:
    """Why the torch among these will not run on the GPU; empty when it will, or nothing says."""
    asked = next((found for line in requirements if (found := _TORCH.match(line))), None)
    if asked is None or not re.fullmatch(r"\d+\.\d+", gpu.capability):
        return ""
    version, build = _wanted(asked["rest"])
    least, most = BUILT_FOR.get(build) or _served(version)
    capability = float(gpu.capability)
    if least <= capability <= most:
        return ""
    torch = f"torch {version[0]}.{version[1]}" + (f" ({build})" if build else "")
    todo = _older(capability) if capability < least else "take torch 2.8 or newer"
    return f"has a {gpu.architecture} GPU, for which {torch} has no kernels; {todo}"


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
