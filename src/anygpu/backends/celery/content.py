"""Read what the broker contains. Others may be able to write there, so nothing is trusted. Pure functions."""

import json
from collections.abc import Iterable
from dataclasses import dataclass

from pydantic import ValidationError

from anygpu.backends.celery.messages import MAX_TIME_MS, START_TASK, WORKER_NAME, WorkerReport, is_attempt


@dataclass(frozen=True, slots=True)
class QueuedMessage:
    """A message that waits in the queue of a worker. `raw` is its exact content in the broker."""

    worker: str
    name: str
    owner: str
    raw: bytes


def parse_workers(scores: Iterable[tuple[bytes, float]]) -> dict[str, int | None]:
    """Return the workers of the sorted set, each with the time of its last report; None if that is no time."""
    times = {name.decode("utf-8", "replace"): score for name, score in scores}
    return {
        name: int(score) if 0 <= score <= MAX_TIME_MS else None
        for name, score in times.items()
        if WORKER_NAME.fullmatch(name)
    }


def parse_report(data: bytes) -> WorkerReport | None:
    """Return the report of a worker; None if it is not valid."""
    try:
        return WorkerReport.model_validate_json(data)
    except ValidationError:
        return None


def parse_message(worker: str, raw: bytes) -> QueuedMessage | None:
    """Return the message if it starts an attempt; None for other content of the queue."""
    try:
        headers = json.loads(raw)["headers"]
        task, name, owner = headers["task"], headers["id"], headers["anygpu_owner"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    valid = task == START_TASK and is_attempt(owner, name)
    return QueuedMessage(worker, name, owner, raw) if valid else None
