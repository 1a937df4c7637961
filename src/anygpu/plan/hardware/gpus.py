"""Specifications of GPU models, and canonical names for their many spellings.

`A100-80GB` and `a100_80g` are spellings of one model. A name that several models share, such as `A100`, is
a family: `matches` accepts every model of the family, and `spec` returns the model that clouds usually
mean by the name.
"""

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

TABLE = Path(__file__).with_name("gpus.csv")
# The model that clouds mean by a family name alone.
DEFAULT_KINDS = {"A100": "A100-40GB", "V100": "V100-16GB", "H100": "H100-SXM", "RTXPRO6000": "RTXPRO6000"}
# Parts of a name that do not distinguish models.
NOISE = re.compile(r"NVIDIA|GEFORCE|TESLA|AMD|INSTINCT|RADEON|TENSORCORE|GPU|GENERATION|BLACKWELL|HBM\dE?")
ALIASES = {
    "RTX6000": "QuadroRTX6000",
    "A4000": "RTXA4000",
    "A4500": "RTXA4500",
    "A5000": "RTXA5000",
    "A6000": "RTXA6000",
    "A10040": "A100-40GB",
    "A10080": "A100-80GB",
    "A10080SXM": "A100-80GB",
    "A100SXM80": "A100-80GB",
    "A100PCIE80": "A100-80GB-PCIe",
    "A10080PCIENVLINK": "A100-80GB-PCIe",
    "A100PCIE": "A100",
    "A100SXM": "A100",
    "A100SXM40": "A100-40GB",
    "A100PCIE40": "A100-40GB",
    "V10016": "V100-16GB",
    "V10032": "V100-32GB",
    "V100SXM": "V100",
    "V100SXM16": "V100-16GB",
    "V100SXM32": "V100-32GB",
    "V100PCIE16": "V100-16GB",
    "V100PCIE32": "V100-32GB",
    "P100PCIE": "P100",
    "P100PCIE16": "P100",
    "P100SXM16": "P100",
    "H100MEGA": "H100-SXM",
    "H10080": "H100-SXM",
    "H10080HBM": "H100-SXM",
    "H100SXM80": "H100-SXM",
    "H10080SXM": "H100-SXM",
    "H10080PCIE": "H100-PCIe",
    "H10080PCIENVLINK": "H100-PCIe",
    "H100PCIE80": "H100-PCIe",
    "H100NVLINK": "H100-PCIe",
    "H10094": "H100-NVL",
    "H200SXM": "H200",
    "H200SXM141": "H200",
    "GH20096": "GH200",
    "GH200480": "GH200",
    "B200SXM": "B200",
    "B300SXM": "B300",
    "B300SXMAC": "B300",
    "RTXPROSERVER6000": "RTXPRO6000",
    "RTXPRO600096": "RTXPRO6000",
    "RTXPRO6000SERVEREDITION": "RTXPRO6000",
    "RTXPRO6000WORKSTATIONEDITION": "RTXPRO6000-WK",
    "RTXPRO6000WS": "RTXPRO6000-WK",
    "RTXPRO4500SERVEREDITION": "RTXPRO4500",
    "RTXPRO4500SE": "RTXPRO4500",
    "3090": "RTX3090",
    "4090": "RTX4090",
    "5090": "RTX5090",
    "2080TI": "RTX2080Ti",
    "MI300": "MI300X",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSpec:
    """The specification of a GPU model, as published by its vendor.

    TFLOPS are peak values without sparsity; 0 if the GPU has no hardware for that precision.
    """

    kind: str
    family: str
    vendor: str
    memory_gib: float
    bandwidth_gb_s: float
    fp32_tflops: float
    tf32_tflops: float
    fp16_tflops: float
    bf16_tflops: float
    fp8_tflops: float
    architecture: str
    capability: str  # CUDA compute capability (`8.0`) or AMD target (`gfx942`)
    year: int
    source: str

    def peak_tflops(self, precision: str) -> float:
        """Return the peak TFLOPS for `fp32`, `tf32`, `fp16`, `bf16` or `fp8`.

        If the GPU has no hardware for that precision, return the peak for the next wider precision.
        """
        wider = {"fp8": "fp16", "bf16": "fp32", "fp16": "fp32", "tf32": "fp32"}
        tflops: float = getattr(self, f"{precision}_tflops")
        return tflops or self.peak_tflops(wider[precision])


def specs() -> Mapping[str, GpuSpec]:
    """Return the specifications of all GPU models, by canonical name."""
    return _specs()


def canonical_name(spelling: str) -> str:
    """Return the canonical name of a GPU model or family; return an unknown name unchanged."""
    return _names().get(_normalise(spelling), spelling.strip())


def spec(spelling: str, *, memory_gib: float = 0) -> GpuSpec | None:
    """Return the specification of a GPU model, or None if the model is unknown.

    For a family, return the model with about `memory_gib` of memory, else the family's default model.
    """
    name = canonical_name(spelling)
    usual = _specs().get(DEFAULT_KINDS.get(name, name))
    if not memory_gib or (usual and _is_close(usual.memory_gib, memory_gib)):
        return usual
    members = (each for each in _specs().values() if each.family == name)
    return next((each for each in members if _is_close(each.memory_gib, memory_gib)), usual)


def matches(requested: str, offered: str) -> bool:
    """Return whether the offered GPU is of the requested model or family. `A10` does not match `A100`."""
    requested_name, tflops = canonical_name(requested), canonical_name(offered)
    spec_ = _specs().get(tflops)
    return requested_name.lower() == tflops.lower() or (spec_ is not None and spec_.family == requested_name)


def closest_kind(spelling: str) -> str:
    """Return the known GPU with the most similar name, a family rather than a model; empty if no name is similar."""
    from difflib import get_close_matches

    families = {_normalise(each.family): each.family for each in _specs().values()}
    for names, cutoff in ((families, 0.8), (_names(), 0.5)):
        if close := get_close_matches(_normalise(spelling), list(names), n=1, cutoff=cutoff):
            return names[close[0]]
    return ""


def is_known(spelling: str) -> bool:
    """Return whether the GPU table lists this GPU model or family."""
    return _normalise(spelling) in _names()


def _is_close(has_gib: float, said_gib: float) -> bool:
    return abs(has_gib - said_gib) <= 0.1 * said_gib


@cache
def _specs() -> dict[str, GpuSpec]:
    with TABLE.open(newline="", encoding="utf-8") as file:
        return {row["kind"]: _spec(row) for row in csv.DictReader(_data(file))}


def _data(lines: Iterator[str]) -> Iterator[str]:
    return (line for line in lines if not line.startswith("#"))


def _spec(row: Mapping[str, str]) -> GpuSpec:
    def number(name: str) -> float:
        return float(row[name] or 0)

    return GpuSpec(
        kind=row["kind"],
        family=row["family"],
        vendor=row["vendor"],
        memory_gib=number("memory_gib"),
        bandwidth_gb_s=number("bandwidth_gb_s"),
        fp32_tflops=number("fp32"),
        tf32_tflops=number("tf32"),
        fp16_tflops=number("fp16"),
        bf16_tflops=number("bf16"),
        fp8_tflops=number("fp8"),
        architecture=row["architecture"],
        capability=row["capability"],
        year=int(row["year"]),
        source=row["source"],
    )


@cache
def _names() -> dict[str, str]:
    kinds = [*_specs(), *(each.family for each in _specs().values())]
    own = {_normalise(name): name for name in kinds}
    return {**ALIASES, **own}


@cache
def _normalise(spelling: str) -> str:
    """Reduce a spelling to the letters and digits that identify a model.

    `NVIDIA A100-SXM4-80GB` becomes `A100SXM80`.
    """
    text = re.sub(r"\b(\d+) ?G(I?B)?\b", r"\1", spelling.upper().replace("_", " ").replace("-", " "))
    text = re.sub(r"\bSXM\d\b", "SXM", text)
    return re.sub(r"[^A-Z0-9]", "", NOISE.sub("", text))
