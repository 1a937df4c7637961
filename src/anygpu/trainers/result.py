"""What training leaves behind."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Export:
    """A model in another format, and how it was checked against the trained one."""

    format: str
    path: Path
    opset: int | None = None
    inputs: Mapping[str, tuple[int | str, ...]] = field(default_factory=dict)  # shapes; a text is a free size
    difference: float | None = None  # largest absolute difference of the outputs; None: nothing to compare
    tolerance: float | None = None


@dataclass(frozen=True, kw_only=True)
class Timing:
    """In seconds; of all attempts of a resumed training together."""

    training_s: float
    checkpoint_s: float = 0.0  # how long training stood still to save
    steps: int = 0


@dataclass(frozen=True, kw_only=True)
class TrainingResult:
    """How training ended. Paths exist; `metrics` are of the best epoch, `history` has one entry an epoch."""

    trainer: str
    metrics: Mapping[str, float]
    history: tuple[Mapping[str, float], ...]
    best: Path | None
    last: Path | None
    exports: tuple[Export, ...]
    timing: Timing
    epochs: int
    stopped: bool = False  # asked to, before the end: resume from the checkpoint
    card: Path | None = None
    samples_sha256: str = ""  # of all samples seen, in order; empty where the framework does not tell

    def save(self, path: Path) -> None:
        data: dict[str, Any] = asdict(self)
        path.write_text(json.dumps(data, indent=2, default=str) + "\n")
