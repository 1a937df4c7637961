"""The range of every value that a job may report. The `anygpu` module, the agent and the server all use these limits.

A value that is inside its range here is accepted everywhere: a script's report is never refused by the server.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

MAX_INTEGER = 2**53 - 1  # every JSON reader represents integers up to this one exactly
MAX_TIME_S = 2.0**40  # Unix seconds; JavaScript's dates end at 8.64e12 s
MAX_METRIC_NAMES = 1_000  # per attempt
MAX_NAME_LENGTH = 200
MAX_MESSAGE_LENGTH = 1_000  # of progress
MAX_END_MESSAGE_LENGTH = 4_000
INFINITY = float("inf")
FRACTION_TOLERANCE = 1e-3  # sums of floats may end slightly above 1

COUNTS = ("step", "steps", "epoch", "epochs")
PROGRESS = ("fraction", *COUNTS, "message")
FIRST_STEPS = ("first_step", "first_epoch", "first_count")  # what the attempt reported first


def is_step(value: object) -> bool:
    """Return whether a value is valid as the step of a metric point."""
    return type(value) is int and -MAX_INTEGER <= value <= MAX_INTEGER


def is_count(value: object) -> bool:
    """Return whether a value is valid as a number of steps or epochs, or as the step of a checkpoint."""
    return type(value) is int and 0 <= value <= MAX_INTEGER


def is_metric_name(name: object) -> bool:
    return type(name) is str and 0 < len(name) <= MAX_NAME_LENGTH and _is_storable(name)


def is_time(value: Any) -> bool:
    """Return whether a value is valid as the time of a metric point or telemetry sample, in Unix seconds."""
    return type(value) in (int, float) and 0 <= value <= MAX_TIME_S


def to_metric_value(value: float) -> float | None:
    """Return a number as a float; None for an integer that no float can represent. NaN and infinities are valid."""
    try:
        return float(value)
    except OverflowError:
        return None


def is_fraction(value: Any) -> bool:
    """Return whether a value is a number from 0 to 1, apart from rounding errors."""
    return type(value) in (int, float) and -FRACTION_TOLERANCE <= value <= 1 + FRACTION_TOLERANCE


def to_text(text: str, max_length: int) -> str:
    """Return a text as valid Unicode without NUL characters, with at most `max_length` characters."""
    text = text[:max_length]
    if not _is_storable(text):
        text = text.encode("utf-8", "replace").decode().replace("\0", "?")
    return text


def valid_progress(reported: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a progress report that are inside their range.

    A long message is cut. A fraction beyond 0 to 1 is moved to the nearer end.
    """
    valid: dict[str, Any] = {name: reported[name] for name in COUNTS if is_count(reported.get(name))}
    valid.update({name: reported[name] for name in FIRST_STEPS if is_step(reported.get(name))})
    fraction: Any = reported.get("fraction")
    if type(fraction) in (int, float) and -INFINITY < fraction < INFINITY:
        valid["fraction"] = float(min(1, max(0, fraction)))
    if isinstance(reported.get("message"), str):
        valid["message"] = to_text(reported["message"], MAX_MESSAGE_LENGTH)
    return valid


def _is_storable(text: str) -> bool:
    """Return whether databases and JSON readers accept a text: it has no NUL and no unpaired surrogate."""
    if "\0" in text:
        return False
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)
