"""JSON lines: {"type": "progress", "data": {"epoch": 5, "total_epochs": 10, "metrics": {...}}}."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from anygpu.agent.reading.run import Run

MESSAGE_LIMIT = 500


def read(text: str, run: Run) -> bool:
    data = _progress_data(text)
    if data is None:
        return False
    _read_place(data, run)
    metrics = data.get("metrics")
    if isinstance(metrics, dict):
        found = [(str(name), _number(value)) for name, value in metrics.items()]
        run.points(run.course.here(), [(name, value) for name, value in found if value is not None])
    return True


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


def _read_place(data: dict[str, Any], run: Run) -> None:
    course = run.course
    epoch, epochs = _count(data.get("epoch")), _count(data.get("total_epochs", data.get("epochs")))
    if epoch is not None:
        course.epoch_ends(epoch, epochs)
    else:
        course.set_epochs(epochs)
    step = _count(data.get("step", data.get("global_step")))
    if step is not None:
        course.at_step(step, _count(data.get("total_steps", data.get("steps"))))
    course.whole = _number(data.get("progress", data.get("fraction")))
    message = data.get("message", data.get("status"))
    course.message = message[:MESSAGE_LIMIT] if isinstance(message, str) and message else course.message


def _number(value: object) -> float | None:
    """Numbers, and the strings that stand for numbers JSON cannot write."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def _count(value: object) -> int | None:
    number = _number(value)
    return int(number) if number is not None and 0 <= number < 1e15 else None
