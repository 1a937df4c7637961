"""Parser for JSON lines: {"type": "progress", "data": {"epoch": 5, "total_epochs": 10, "metrics": {...}}}."""

from __future__ import annotations

from anygpu.agent.parsers.values import is_noise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from anygpu.agent.parsers.state import RunState

MAX_MESSAGE_LENGTH = 500
POSITION = ("progress", "fraction", "total_epochs", "total_steps")


def parse_json_line(text: str, state: RunState) -> bool:
    data = _progress_data(text)
    if data is None:
        return False
    _update_position(data, state)
    found = [(str(name), _number(value)) for name, value in _metrics(data).items()]
    state.add_points(
        state.position.current_step(), [(name, value) for name, value in found if value is not None]
    )
    return True


def _metrics(data: dict[str, Any]) -> dict[str, Any]:
    """Return the metrics of a line: those in `metrics`, or else every other number in `data`."""
    if "metrics" in data:
        return data["metrics"] if isinstance(data["metrics"], dict) else {}
    numbers = {name: value for name, value in data.items() if isinstance(value, (int, float))}
    return {name: value for name, value in numbers.items() if name not in POSITION and not is_noise(name)}


def _progress_data(text: str) -> dict[str, Any] | None:
    text = text.strip()
    if not (text.startswith("{") and text.endswith("}") and '"progress"' in text):
        return None
    import json

    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        return None
    data = line.get("data") if line.get("type") == "progress" else None
    return data if isinstance(data, dict) else None


def _update_position(data: dict[str, Any], state: RunState) -> None:
    position = state.position
    epoch, epochs = _count(data.get("epoch")), _count(data.get("total_epochs", data.get("epochs")))
    if epoch is not None:
        position.end_epoch(epoch, epochs)
    else:
        position.set_epoch_count(epochs)
    step = _count(data.get("step", data.get("global_step")))
    if step is not None:
        position.set_step(step, _count(data.get("total_steps", data.get("steps"))))
    position.run_fraction = _number(data.get("progress", data.get("fraction")))
    message = data.get("message", data.get("status"))
    position.message = (
        message[:MAX_MESSAGE_LENGTH] if isinstance(message, str) and message else position.message
    )


def _number(value: object) -> float | None:
    """Convert a JSON value to a float; None if it is not a number.

    Strings such as "NaN" are accepted, because JSON has no number for NaN and infinity.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def _count(value: object) -> int | None:
    number = _number(value)
    return int(number) if number is not None and 0 <= number < 1e15 else None
