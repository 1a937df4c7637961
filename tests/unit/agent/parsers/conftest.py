"""One run's output in, what is read from it out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from anygpu.agent.parsers.reader import OutputReader

Output = bytes | str


def _readings(output: Output) -> list[tuple[str, Any]]:
    reader = OutputReader()
    data = output.encode() if isinstance(output, str) else output
    return [*reader.feed(data, 1.0), *reader.close(1.0)]


def _points(output: Output) -> list[tuple[str, int, float]]:
    found = [reading for kind, reading in _readings(output) if kind == "points"]
    return [(name, step, value) for reading in found for name, step, _, value in reading]


def _progress(output: Output) -> dict[str, object] | None:
    found = [reading for kind, reading in _readings(output) if kind == "progress"]
    return found[-1] if found else None


@pytest.fixture(scope="session")
def readings_of() -> Callable[[Output], list[tuple[str, Any]]]:
    return _readings


@pytest.fixture(scope="session")
def points_of() -> Callable[[Output], list[tuple[str, int, float]]]:
    """points_of(output) -> (name, step, value) in the order they were told."""
    return _points


@pytest.fixture(scope="session")
def progress_of() -> Callable[[Output], dict[str, object] | None]:
    """progress_of(output) -> the last progress told."""
    return _progress
