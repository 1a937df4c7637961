"""Write JSON as the API defines it: times, events, and strings for NaN and infinities."""

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from anygpu.events.codec import encode
from anygpu.events.fold import Recorded


def format_time(at_ms: int) -> str:
    """Format a Unix time in milliseconds as ISO 8601 in UTC."""
    seconds = datetime.fromtimestamp(at_ms / 1000, UTC)
    return seconds.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at_ms % 1000:03d}Z"


def format_optional_time(at_ms: int | None) -> str | None:
    return None if at_ms is None else format_time(at_ms)


def event_json(recorded: Recorded) -> str:
    """Return the JSON text of an event. Its data is copied from the journal, which stores JSON."""
    event = recorded.event
    return (
        f'{{"position":{recorded.position},"job_id":{json.dumps(recorded.job_id)},'
        f'"at":"{format_time(recorded.at_ms)}","type":"{type(event).__name__}",'
        f'"version":{event.VERSION},"data":{encode(event).decode()}}}'
    )


def dumps(value: Any) -> str:
    """Return the JSON text of `value`. NaN and infinities become strings."""
    try:
        return json.dumps(value, allow_nan=False)
    except ValueError:
        return json.dumps(replace_nonfinite(value), allow_nan=False)


def replace_nonfinite(value: Any) -> Any:
    """Replace NaN and infinities in nested data by strings, because JSON lacks them.

    Our clients convert them back.
    """
    if isinstance(value, float) and not math.isfinite(value):
        return _nonfinite_name(value)
    if isinstance(value, Mapping):
        return {str(key): replace_nonfinite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [replace_nonfinite(each) for each in value]
    return value


def _nonfinite_name(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"
