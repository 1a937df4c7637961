"""EC2's on-demand prices, from a table in the package: the Pricing API needs its own permission and region.

A type or region that is not in the table has no on-demand offer: a price that is not known is not guessed.
"""

import csv
from functools import cache
from pathlib import Path

from anygpu.events.offers import MICROUSD

TABLE = Path(__file__).with_name("ec2_prices.csv")


def on_demand_microusd(instance_type: str, region: str) -> int | None:
    """Per hour; None when it is not known."""
    return _table().get((instance_type, region))


@cache
def _table() -> dict[tuple[str, str], int]:
    with TABLE.open(newline="") as file:
        rows = [*csv.DictReader(line for line in file if not line.startswith("#"))]
    return {
        (row["type"], region): round(float(price) * MICROUSD)
        for row in rows
        for region, price in row.items()
        if region != "type" and price
    }
