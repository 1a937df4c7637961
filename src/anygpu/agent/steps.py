"""Which step training had reached, and when.

A file saved by the script belongs to the step of that moment.
"""

from __future__ import annotations

import time
from collections import deque

REMEMBERED = 4096
RESOLUTION_S = 0.2


class Steps:
    def __init__(self, first: int = 0) -> None:
        self.first = self.latest = first
        self._history: deque[tuple[float, int]] = deque([(0.0, first)], maxlen=REMEMBERED)

    def note(self, step: int | None, at: float | None = None) -> None:
        if step is None or step <= self.latest:
            return
        at = time.time() if at is None else at
        self.latest = step
        if at - self._history[-1][0] < RESOLUTION_S and len(self._history) > 1:
            self._history[-1] = (self._history[-1][0], step)
        else:
            self._history.append((at, step))

    def at(self, moment: float) -> int:
        """The step known at that time, or the oldest that is remembered."""
        for at, step in reversed(self._history):
            if at <= moment:
                return step
        return self._history[0][1]
