"""Functions that format durations, ages, sizes, money and metrics for people."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import datetime

_UNITS = ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s"))


def duration(seconds: float | None) -> str:
    """Format a duration in one of the forms `8.0s`, `3m20s`, `2h05m` and `3d4h`."""
    if seconds is None or not math.isfinite(seconds):
        return "-"
    if seconds < 10:
        return f"{max(seconds, 0):.1f}s"
    whole = round(seconds)
    for size, name, smaller, smaller_name in _UNITS:
        if whole >= size:
            rest = whole % size // smaller
            width = 1 if size == 86400 else 2
            return f"{whole // size}{name}{rest:0{width}d}{smaller_name}"
    return f"{whole}s"


def parse_time(text: str | None) -> "datetime | None":
    from datetime import datetime

    return datetime.fromisoformat(text) if text else None


def seconds_since(text: str | None, until: str | None = None) -> float | None:
    """Return the seconds from the ISO time `text` to `until` (default: now); None if `text` is not a time."""
    from datetime import UTC, datetime

    start = parse_time(text)
    if start is None:
        return None
    return ((parse_time(until) or datetime.now(UTC)) - start).total_seconds()


def age(text: str | None) -> str:
    seconds = seconds_since(text)
    return "-" if seconds is None else f"{duration(seconds)} ago"


def size(count: float | None) -> str:
    if count is None:
        return "-"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def money(microusd: int | None) -> str:
    """Format micro-dollars as dollars, with two decimals from $1 and four below."""
    if not microusd:
        return "$0"
    dollars = microusd / 1_000_000
    return f"${dollars:.2f}" if abs(dollars) >= 1 else f"${dollars:.4f}"


def hourly_price(microusd: int | None) -> str:
    return f"{money(microusd)} per hour" if microusd else "free"


def place(offer: Mapping[str, Any]) -> str:
    """Name the place of an offer: backend, machine, zone or region, and whether it is a spot machine."""
    machine = " ".join(part for part in (offer["backend"], offer.get("name")) if part)
    where = offer.get("zone") or offer.get("region")
    spot = " (spot)" if offer.get("interruptible") else ""
    return f"{machine}{f' in {where}' if where else ''}{spot}"


def metric(value: Any) -> str:
    """Format a metric with four significant digits."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return str(value)
    if isinstance(value, int) or (
        value == int(value) and abs(value) < 1e6 if math.isfinite(value) else False
    ):
        return str(int(value))
    return f"{value:.4g}"


def percent(fraction: float | None) -> str:
    return "-" if fraction is None else f"{100 * fraction:.0f}%"


def metrics(values: dict[str, Any], limit: int = 3) -> str:
    return " ".join(f"{name}={metric(value)}" for name, value in list(values.items())[:limit])


def truncate(text: str, width: int) -> str:
    """Cut a text to `width` characters, ending in `…` if something was cut."""
    return text if len(text) <= width else text[: width - 1] + "…"


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def work_lost(seconds: float, microusd: int) -> str:
    return f"{duration(seconds)} and {money(microusd)}"
