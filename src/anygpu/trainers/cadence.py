"""When to save: as often as asked, or as often as costs at most one part in a hundred of the time."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

from anygpu.trainers.progress import Progress

SHARE = 0.01
SOONEST_S = 5.0  # with a model that is saved in no time, no more often than this
PATIENCE = (
    3.0  # where best weights alone use the share up, checkpoints still come: at a third of their usual rate
)


class Cadence:
    """Knows how long saving took and training has run. Best weights and checkpoints share what saving may cost."""

    def __init__(self, every_s: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._every_s = every_s
        self._clock = clock
        self._began = self._saved_at = clock()
        self._earlier_s = self._earlier_stood_s = 0.0  # of earlier attempts
        self._stood_s = self._cost_s = 0.0

    def is_due(self) -> bool:
        since_s = self._clock() - self._saved_at
        if self._every_s is not None:
            return since_s >= self._every_s
        affordable = self._stood_s + self._cost_s <= SHARE * (self._clock() - self._began)
        first = self._saved_at == self._began
        overdue = first or since_s >= PATIENCE * self._cost_s / SHARE
        return since_s >= SOONEST_S and (affordable or overdue)

    @contextlib.contextmanager
    def standstill(self, *, to_resume: bool = True) -> Iterator[None]:
        """Training waits meanwhile. Best weights are nothing to resume from: they cost, but put no checkpoint off."""
        began = self._clock()
        yield
        ended = self._clock()
        self._stood_s += ended - began
        if to_resume:
            self._cost_s, self._saved_at = ended - began, ended

    def spent(self) -> tuple[float, float]:
        """Seconds of training in all, and how many of them it stood still."""
        return self._earlier_s + self._clock() - self._began, self._earlier_stood_s + self._stood_s

    def resumed(self, progress: Progress) -> None:
        self._earlier_s, self._earlier_stood_s = progress.training_s, progress.checkpoint_s
