"""What a tracker is told, and what it has to be able to do."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

FINISHED, FAILED, STOPPED = "finished", "failed", "stopped"


@dataclass(frozen=True, kw_only=True)
class Run:
    """One training, its continuations included: those have the same `key`."""

    key: str
    name: str
    trainer: str
    settings: Mapping[str, Any]
    tags: tuple[str, ...]
    output: Path


@dataclass(frozen=True)
class Point:
    """Numbers measured at a step."""

    metrics: Mapping[str, float]
    step: int
    at_s: float = field(default_factory=time.time)


class Tracker(Protocol):
    """A place where people look at their trainings. It may be slow, and may fail: a thread of its own calls it."""

    name: str

    def start(self) -> None:
        """Find the run of this key and go on with it, or make one."""
        ...

    def log(self, points: Sequence[Point]) -> None: ...

    def end(self, status: str) -> None: ...

    def files(self) -> Sequence[Path]:
        """What it wrote and the job should keep."""
        ...
