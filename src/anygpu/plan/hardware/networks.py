"""Links between GPUs: the network between the machines of a job, and NVLink or PCIe inside a machine.

A backend may name the kind of network (`Offer.interconnect`). Its speed is looked up by the instance type in
networks.csv, else a typical speed of the kind is assumed.
"""

import csv
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

from anygpu.plan.hardware.gpus import GpuSpec

TABLE = Path(__file__).with_name("networks.csv")
ETHERNET = "ethernet"
# Gbit/s that are assumed for a kind of network whose speed is not known; "" is an unknown network.
TYPICAL_GBIT_S = {"": 10.0, ETHERNET: 10.0, "efa": 400.0, "infiniband": 200.0, "nvlink": 7200.0}
FAST_GBIT_S = 100.0  # from this speed on, a network counts as fast
WIRE_SHARE = 0.8  # of the nominal speed of a link; the rest is lost to protocols
# GB/s of a GPU over PCIe when all GPUs of a machine send. PCIe 4.0 x16 has 32 GB/s in each direction, which
# passes through the CPU.
PCIE_GB_S = 12.0
# GPU models with NVLink to all others in the machine, in GB/s for both directions together, by NVIDIA's data sheets.
NVLINK_GB_S = {
    "P100": 160,
    "V100-16GB": 300,
    "V100-32GB": 300,
    "A100-40GB": 600,
    "A100-80GB": 600,
    "H100-SXM": 900,
    "H200": 900,
    "GH200": 900,
    "B200": 1800,
    "B300": 1800,
}
# AMD's data sheets: Infinity Fabric between all GPUs of a machine.
FABRIC_GB_S = {"MI250": 800, "MI250X": 800, "MI300X": 896, "MI325X": 896}


@dataclass(frozen=True, slots=True)
class Network:
    """The network between the machines of one offer."""

    kind: str  # ethernet, efa, infiniband, nvlink; empty if unknown
    gbit_s: float  # nominal, in each direction, per machine
    is_assumed: bool  # the speed is typical of the kind, and not known for this instance type

    @property
    def gb_s(self) -> float:
        """The bytes per second that a training can use, in GB/s."""
        return self.gbit_s / 8 * WIRE_SHARE

    @property
    def is_fast(self) -> bool:
        return self.gbit_s >= FAST_GBIT_S

    def describe(self) -> str:
        assumed = " assumed" if self.is_assumed else ""
        return f"{self.kind or 'a network of unknown kind'} ({self.gbit_s:g} Gbit/s{assumed})"


@lru_cache(maxsize=4096)
def find_network(instance_type: str, interconnect: str = "") -> Network:
    """Return the network between machines of an instance type. `interconnect` is the kind that the backend states.

    If the backend states another kind than the table, the backend is right. A machine with a fast network that is used
    as plain ethernet, for example a p4d without EFA interfaces, is assumed to reach 100 Gbit/s.
    """
    listed = _find_row(instance_type)
    if listed is not None and interconnect in ("", listed.kind):
        return listed
    gbit_s = TYPICAL_GBIT_S.get(interconnect, TYPICAL_GBIT_S[""])
    if listed is not None and interconnect == ETHERNET:
        gbit_s = min(listed.gbit_s, FAST_GBIT_S)
    return Network(interconnect, gbit_s, is_assumed=True)


def gpu_link_gb_s(gpu: GpuSpec) -> float:
    """Return how many GB/s a GPU can send to the other GPUs of its machine in a training."""
    both_directions = {**NVLINK_GB_S, **FABRIC_GB_S}.get(gpu.kind)
    return both_directions / 2 * WIRE_SHARE if both_directions else PCIE_GB_S


def has_fast_gpu_link(gpu: GpuSpec) -> bool:
    """Return whether the GPUs of a machine are connected by NVLink or Infinity Fabric."""
    return gpu.kind in NVLINK_GB_S or gpu.kind in FABRIC_GB_S


def _find_row(instance_type: str) -> Network | None:
    exact = _rows().get(instance_type)
    if exact is not None:
        return exact
    starts = [name for name in _prefixes() if instance_type.startswith(name)]
    return _prefixes()[max(starts, key=len)] if starts else None


@cache
def _prefixes() -> dict[str, Network]:
    return {name.removesuffix("*"): network for name, network in _rows().items() if name.endswith("*")}


@cache
def _rows() -> dict[str, Network]:
    with TABLE.open(newline="", encoding="utf-8") as file:
        rows = csv.DictReader(line for line in file if not line.startswith("#"))
        return {
            row["instance_type"]: Network(row["interconnect"], float(row["gbit_s"]), is_assumed=False)
            for row in rows
        }
