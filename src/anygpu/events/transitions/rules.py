"""Refuse events that do not fit the state of the job, and change single attempts and nodes in it."""

from collections.abc import Callable
from dataclasses import replace
from functools import singledispatch
from typing import Any

from anygpu.errors import Conflict
from anygpu.events.types import (
    Event,
)
from anygpu.events.view import AttemptView, JobView, NodeView


class InvalidEvent(Conflict):
    """The event does not fit the job's state, which has changed in the meantime. Read the job again."""

    code = "out_of_turn"
    retryable = True

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message, hint="Read the job again, and try again if it is still needed.")


@singledispatch
def apply(event: Event, view: JobView, at_ms: int) -> JobView:
    raise InvalidEvent(
        f"the job's state does not allow the event {type(event).__name__}: the job was already submitted, or the "
        "event type is unknown"
    )


def find_attempt(view: JobView, number: int) -> AttemptView | None:
    return view.attempts[number - 1] if 1 <= number <= len(view.attempts) else None


def require(holds: bool, event: Event, otherwise: str) -> None:
    if not holds:
        raise InvalidEvent(f"the job's state does not allow the event {type(event).__name__}: {otherwise}")


def require_live(event: Event, number: int, view: JobView) -> AttemptView:
    live = view.live_attempt
    if live is None or live.number != number:
        raise InvalidEvent(
            f"the job's state does not allow the event {type(event).__name__}: attempt {number} is not the one that is "
            "running"
        )
    return live


def require_unknown_resume(event: Event, number: int, view: JobView) -> None:
    attempt = require_live(event, number, view)
    require(attempt.resume is not None, event, "the attempt started without a checkpoint")
    require(attempt.resumed is None, event, "it is already recorded whether the attempt resumed")


def require_node(event: Event, number: int, node: int, view: JobView) -> NodeView:
    attempt = require_live(event, number, view)
    require(0 <= node < len(attempt.nodes), event, f"the attempt has no node {node}")
    return attempt.nodes[node]


def with_attempt(view: JobView, number: int, change: Callable[[AttemptView], AttemptView]) -> JobView:
    attempts = tuple(change(a) if a.number == number else a for a in view.attempts)
    return replace(view, attempts=attempts)


def with_node(view: JobView, number: int, node: int, **changes: Any) -> JobView:
    return with_attempt(view, number, lambda attempt: attempt.with_node(node, **changes))
