"""The terms of each cloud and of each kind of own machine: billing rule, setup time, egress price, limits."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from anygpu.events.offers import MICROUSD, Billing

TABLE = Path(__file__).with_name("terms.csv")


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudTerms:
    """The terms that apply to all machines of a cloud. None means unknown or unlimited."""

    cloud: str
    provider: str
    billing: Billing
    setup_s: float
    egress_microusd_per_gib: int | None
    max_run_s: float | None
    max_nodes: int  # machines of one job
    interconnect: str  # between them; empty: as the instance type has it
    dedicated: bool  # the job does not share the operating system or the GPU
    spot: bool
    priced: str  # list | same:<cloud> | own
    source: str
    recorded: str

    @property
    def is_owned(self) -> bool:
        """Whether these are the organisation's own machines, whose price the organisation sets."""
        return self.priced == "own"

    @property
    def same_prices_as(self) -> str:
        return self.priced.removeprefix("same:") if self.priced.startswith("same:") else ""


@cache
def terms() -> Mapping[str, CloudTerms]:
    """Return the terms by cloud.

    A cloud has the same name as the backend kind that uses it, such as `ec2`.
    """
    with TABLE.open(newline="", encoding="utf-8") as file:
        rows = csv.DictReader(line for line in file if not line.startswith("#"))
        return {row["cloud"]: _terms(row) for row in rows}


def find_clouds(name: str) -> tuple[str, ...]:
    """Return the cloud with this name, or all clouds of a provider such as `aws`.

    Return an empty tuple if the name is unknown.
    """
    requested = name.strip().lower()
    return tuple(each.cloud for each in terms().values() if requested in (each.cloud, each.provider))


def _terms(row: Mapping[str, str]) -> CloudTerms:
    egress, max_run = row["egress_usd_gib"], row["max_run_s"]
    return CloudTerms(
        cloud=row["cloud"],
        provider=row["provider"],
        billing=Billing(step_s=int(row["billing_step_s"]), minimum_s=int(row["billing_minimum_s"])),
        setup_s=float(row["setup_s"]),
        egress_microusd_per_gib=round(float(egress) * MICROUSD) if egress else None,
        max_run_s=float(max_run) if max_run else None,
        max_nodes=int(row["max_nodes"] or 1),
        interconnect=row["interconnect"],
        dedicated=row["dedicated"] == "yes",
        spot=row["spot"] == "yes",
        priced=row["priced"],
        source=row["source"],
        recorded=row["recorded"],
    )
