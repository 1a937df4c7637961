"""Read the quantities of Kubernetes (`500m`, `16Gi`), and add and compare sets of resources."""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

UNITS = {
    "n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50, "Ei": 2.0**60,
}  # fmt: skip
GIB = 2.0**30
_QUANTITY = re.compile(r"([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)([a-zA-Z]*)")
Amounts = Mapping[str, float]


def parse_quantity(text: object) -> float:
    """Return the value of a quantity; 0 if the text is not a quantity."""
    return _parse_text(str(text))


@lru_cache(maxsize=4096)  # the pods of a cluster request few different amounts
def _parse_text(text: str) -> float:
    match = _QUANTITY.fullmatch(text.strip())
    if match is None or match[2] not in UNITS:
        return 0.0
    try:
        return float(match[1]) * UNITS[match[2]]
    except ValueError:
        return 0.0


def parse_amounts(quantities: Mapping[str, object] | None) -> dict[str, float]:
    return {name: parse_quantity(value) for name, value in (quantities or {}).items()}


def format_quantity(value: float) -> str:
    """Return a whole number, or a number of thousandths."""
    return str(round(value)) if value == round(value) else f"{round(value * 1000)}m"


def format_gib(gib: float) -> str:
    return f"{round(gib * 1024)}Mi"


def sum_amounts(sets: Iterable[Amounts]) -> dict[str, float]:
    total: dict[str, float] = {}
    for amounts in sets:
        for name, value in amounts.items():
            total[name] = total.get(name, 0.0) + value
    return total


def fitting_count(free: Amounts, need: Amounts) -> tuple[int, str]:
    """Return how often `need` fits into `free`, and the resource that limits it."""
    limits = [(int(free.get(name, 0.0) / value + 1e-9), name) for name, value in need.items() if value > 0]
    count, name = min(limits, default=(0, ""))
    return max(0, count), name
