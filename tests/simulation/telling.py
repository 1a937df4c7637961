"""What tests ask of a history."""

from typing import TypeVar

from anygpu.events.types import AttemptLaunching, Event
from anygpu.testing.simulate import History

E = TypeVar("E", bound=Event)


def of(history: History, kind: type[E]) -> list[E]:
    return [event for event in history.events if isinstance(event, kind)]


def went(history: History) -> list[str]:
    """Where its attempts were, in turn."""
    return [event.offer.backend for event in of(history, AttemptLaunching)]
