"""Counters and metrics of a training, stored with every checkpoint."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass
class Progress:
    """Counters and metrics of a training. `epoch` and `step` count completed epochs and steps.

    Stored as JSON. Python writes floats to JSON without rounding, so a resumed training has the same numbers.
    """

    epoch: int = 0
    step: int = 0
    step_in_epoch: int = 0
    totals: dict[str, float] = field(default_factory=dict)  # running sums of the current epoch
    history: list[dict[str, float]] = field(default_factory=list)
    best_epoch: int = 0
    samples_sha256: str = ""  # hash of all sample ids used, in order
    training_s: float = 0.0
    checkpoint_s: float = 0.0

    def saw(self, samples: Iterable[int | str]) -> None:
        """Add the ids of the samples of one step to the hash `samples_sha256`. Call it once per step."""
        text = f"{self.samples_sha256} {' '.join(map(str, samples))}"
        self.samples_sha256 = hashlib.sha256(text.encode()).hexdigest()

    def finish_epoch(self, metrics: Mapping[str, float], goal: tuple[str, str]) -> None:
        self.epoch += 1
        self.step_in_epoch = 0
        self.totals = {}
        self.history.append({name: float(value) for name, value in metrics.items()})
        if self._is_best(goal):
            self.best_epoch = self.epoch

    def best_metrics(self) -> dict[str, float]:
        return dict(self.history[self.best_epoch - 1]) if self.best_epoch else {}

    def _is_best(self, goal: tuple[str, str]) -> bool:
        """Return whether the last epoch is the best so far by `goal`, a metric and "min" or "max".

        The first epoch always is. NaN is worse than any number.
        """
        name, direction = goal
        if not self.best_epoch:
            return True
        new, old = (self.history[at - 1].get(name) for at in (self.epoch, self.best_epoch))
        if new is None or new != new:
            return False
        if old is None or old != old:
            return True
        return new > old if direction == "max" else new < old

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)))

    @classmethod
    def load(cls, path: Path) -> Progress:
        return cls(**json.loads(path.read_text()))
