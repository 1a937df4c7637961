"""Parse durations, sizes, amounts of money and instants, each into a single unit.

Every function takes a value from a file or a flag. If the value is invalid, it raises ValueError with a
message that continues the sentence "the value ...".
"""

import re
from datetime import datetime
from decimal import Decimal
from typing import Any

SECONDS = {
    "ms": 0.001,
    "s": 1,
    "sec": 1,
    "second": 1,
    "m": 60,
    "min": 60,
    "minute": 60,
    "h": 3600,
    "hr": 3600,
    "hour": 3600,
    "d": 86400,
    "day": 86400,
    "w": 604800,
    "week": 604800,
}
GIB = 1 << 30
_BINARY = {letter: 1 << (10 * power) for power, letter in enumerate("kmgtp", 1)}
_DECIMAL = {letter: 1000**power for power, letter in enumerate("kmgtp", 1)}
MICROS_PER_DOLLAR = 1_000_000

MAX_DURATION_S = 10 * 365 * 86400.0
MAX_SIZE_GIB = float(1 << 30)
MAX_DOLLARS = 1_000_000_000
_MAX_TEXT = 64

_NUMBER = r"[0-9]+(?:\.[0-9]*)?|\.[0-9]+"
_DURATION_PART = re.compile(rf"({_NUMBER})\s*([a-z]+)\s*")
_PLAIN_NUMBER = re.compile(rf"(?:{_NUMBER})(?:e[+-]?[0-9]{{1,3}})?", re.IGNORECASE)
_SIZE = re.compile(rf"({_NUMBER})\s*([kmgtp]?)(ib|i|b)?", re.IGNORECASE)
_MONEY = re.compile(
    r"(?:\$\s*|usd\s*)?([0-9]{1,12}(?:\.[0-9]*)?|\.[0-9]+)(?:\s*(?:usd|dollars?|\$))?", re.IGNORECASE
)

_DURATION_FORM = "is not a duration; write seconds, or a text such as '90m', '6h' or '1h30m'"
_SIZE_FORM = "is not a size; write GiB as a number, or a text such as '16GiB', '16GB' or '512MiB'"
_MONEY_FORM = "is not an amount of dollars; write a number, or a text such as '$10' or '10.50'"
_DEADLINE_FORM = (
    "is not a deadline; write the time from the submission on, such as '6h', or a date and time with "
    "UTC offset, such as '2030-01-31T18:00:00+01:00'"
)


def seconds(value: Any) -> float:
    """Parse a duration such as `3600`, `"6h"` or `"1h30m"` to seconds. The result is above zero."""
    number = _parse_number(value)
    amount = _parse_duration(value) if number is None else number
    if amount is None:
        raise ValueError(_DURATION_FORM)
    if not 0 < amount <= MAX_DURATION_S:
        raise ValueError("is out of range; give a duration above zero and of at most ten years")
    return amount


def gibibytes(value: Any) -> float:
    """Parse a size such as `16`, `"16GiB"` or `"16GB"` to GiB.

    A single letter is a binary unit: "16G" is 16 GiB.
    """
    number = _parse_number(value)
    amount = _parse_size(value) if number is None else number
    if amount is None:
        raise ValueError(_SIZE_FORM)
    if not 0 < amount <= MAX_SIZE_GIB:
        raise ValueError("is out of range; give a size above zero and of at most 1 EiB")
    return amount


def microdollars(value: Any) -> int:
    """Parse an amount such as `10`, `"$10"` or `"10.50"` to micro-dollars, without rounding."""
    match = _MONEY.fullmatch(_text(value))
    if match is None or isinstance(value, bool):
        raise ValueError(_MONEY_FORM)
    micros = Decimal(match[1]) * MICROS_PER_DOLLAR
    if micros != int(micros):
        raise ValueError(
            "has too many decimal places; give at most six, because the smallest unit is a millionth of a "
            "dollar"
        )
    if micros > MAX_DOLLARS * MICROS_PER_DOLLAR:
        raise ValueError(f"is out of range; give an amount from $0 to ${MAX_DOLLARS:,}")
    return int(micros)


def deadline(value: Any) -> float | datetime:
    """Parse a deadline: a duration in seconds from submission, or an instant with its UTC offset."""
    try:
        return seconds(value)
    except ValueError as error:
        if str(error) != _DURATION_FORM:
            raise
    return instant(value)


def instant(value: Any) -> datetime:
    """Parse an ISO 8601 instant, which must have a UTC offset."""
    try:
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(_text(value))
    except ValueError:
        raise ValueError(_DEADLINE_FORM) from None
    if moment.utcoffset() is None:
        raise ValueError("has no UTC offset; end it with 'Z' for UTC, or with an offset such as '+01:00'")
    if not 2000 <= moment.year <= 9000:
        raise ValueError("is out of range; give a deadline between the years 2000 and 9000")
    return moment


def _parse_number(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, float) or (isinstance(value, int) and abs(value) < 1 << 63):
        return float(value)
    text = _text(value)
    return float(text) if _PLAIN_NUMBER.fullmatch(text) else None


def _parse_duration(value: Any) -> float | None:
    text = _text(value).lower()
    if not text or _DURATION_PART.sub("", text):
        return None
    total = 0.0
    for amount, unit in _DURATION_PART.findall(text):
        scale = SECONDS.get(unit) or SECONDS.get(unit.removesuffix("s"))
        if scale is None:
            return None
        total += float(amount) * scale
    return total


def _parse_size(value: Any) -> float | None:
    match = _SIZE.fullmatch(_text(value))
    if match is None:
        return None
    amount, letter, ending = match[1], match[2].lower(), (match[3] or "").lower()
    if not letter:
        return float(amount) / GIB if ending == "b" else None
    scale = _DECIMAL[letter] if ending == "b" else _BINARY[letter]
    return float(amount) * scale / GIB


def _text(value: Any) -> str:
    """Return the value as text. Empty if the value cannot be a quantity, such as a long text."""
    if isinstance(value, float):
        return f"{Decimal(str(value)):f}" if value == value and abs(value) < 1e18 else ""
    if isinstance(value, int) and abs(value) >= 1 << 63:
        return ""
    text = str(value).strip() if isinstance(value, str | int) else ""
    return text if len(text) <= _MAX_TEXT else ""
