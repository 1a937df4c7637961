"""A simulated vendor: its regions, machine types, prices and billing rule."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

OnHalt = Literal["end", "stop", "off"]  # off: the machine is down but still billed


@dataclass(frozen=True, slots=True, kw_only=True)
class SimMachineType:
    """A machine type. Prices are in micro-dollars per hour for the whole machine."""

    name: str
    price_microusd_per_hour: int
    spot_microusd_per_hour: int | None = None
    vcpus: int = 4
    memory_gib: float = 16
    gpu_kind: str = ""
    gpu_count: int = 0
    gpu_memory_gib: float = 0
    disk_gib: int = 100
    regions: tuple[str, ...] = ()  # empty: available in all regions


@dataclass(frozen=True, slots=True, kw_only=True)
class SimBillingRule:
    """How time is billed: rounded up to a multiple of `step_s` seconds, and at least `minimum_s` seconds."""

    step_s: int = 1
    minimum_s: int = 0

    def billed_s(self, used_s: int) -> int:
        steps = -(-max(0, used_s) // self.step_s)
        return max(steps * self.step_s, self.minimum_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimVendor:
    """A vendor: regions, machine types, billing rule, metadata format, credentials."""

    name: str
    regions: Mapping[str, tuple[str, ...]]  # zones by region; an empty tuple for a vendor without zones
    types: tuple[SimMachineType, ...]
    billing_rule: SimBillingRule = SimBillingRule()
    metadata_format: str = ""  # aws, gcp, azure, or empty for none
    on_halt: OnHalt = "end"
    credentials: Mapping[str, str] = field(default_factory=dict)  # secrets by key id; tokens are key ids
    address_microusd_per_hour: int = 0
    vcpu_limit: int = 4096

    def find_type(self, name: str) -> SimMachineType | None:
        return next((kind for kind in self.types if kind.name == name), None)

    def zones(self, region: str) -> tuple[str, ...]:
        return self.regions.get(region) or (region,)
