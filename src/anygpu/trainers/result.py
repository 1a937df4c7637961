"""Types for the result of a training: metrics, files, exports and timing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Export:
    """An exported model file, and how far its outputs differ from those of the trained model."""

    format: str
    path: Path
    opset: int | None = None
    # Shape of each input; a string is a dynamic size.
    inputs: Mapping[str, tuple[int | str, ...]] = field(default_factory=dict)
    difference: float | None = None  # largest absolute output difference; None: not compared
    tolerance: float | None = None


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Seconds spent and steps done, summed over all attempts of a resumed training."""

    training_s: float
    checkpoint_s: float = 0.0  # how long training paused for saving
    steps: int = 0


@dataclass(frozen=True, kw_only=True)
class TrainingResult:
    """Outcome of a training: files, metrics of the best epoch, and the metrics of every epoch (`history`)."""

    trainer: str
    metrics: Mapping[str, float]
    history: tuple[Mapping[str, float], ...]
    best: Path | None
    last: Path | None
    exports: tuple[Export, ...]
    timing: Timing
    epochs: int
    stopped: bool = False  # stopped early on request; can be resumed from the checkpoint
    card: Path | None = None
    samples_sha256: str = ""  # hash of all sample ids used, in order; empty if unknown

    def save(self, path: Path) -> None:
        data: dict[str, Any] = asdict(self)
        path.write_text(json.dumps(data, indent=2, default=str) + "\n")
