"""Where a run is: its epochs and its steps, from whatever its output tells of them."""

from __future__ import annotations

MOST = 10**15


class Course:
    """Epochs are counted from 1 whatever the script counts from; `step` is the axis its points lie on."""

    def __init__(self) -> None:
        self.epochs: int | None = None
        self.completed: int | None = None
        self.running: int | None = None
        self.zero_based = False
        self.step: int | None = None
        self.steps: int | None = None
        self.message: str | None = None
        self.whole: float | None = None  # the fraction of the whole run, where the output says it outright
        self._unrolled = (0, 0)
        self._part = 0.0  # of the epoch after the completed ones

    def ordinal(self, printed: int) -> int:
        """The epoch's number from 1. One printed 0 shows that the script counts from 0."""
        if printed == 0:
            self.zero_based = True
        return min(printed, MOST) + (1 if self.zero_based else 0)

    def set_epochs(self, total: int | None, ordinal: int = 0) -> None:
        """Scripts that count from 0 may print the last number as the total: `Epoch 24/24` is the 25th."""
        if total:
            self.epochs = max(min(total, MOST), ordinal if self.zero_based else 0)

    def epoch_starts(self, ordinal: int, total: int | None = None) -> None:
        self.set_epochs(total, ordinal)
        self.running, self.completed, self._part, self.whole = ordinal, max(0, ordinal - 1), 0.0, None

    def epoch_ends(self, ordinal: int, total: int | None = None) -> None:
        self.set_epochs(total, ordinal)
        self.running, self.completed, self._part, self.whole = None, ordinal, 0.0, None

    def in_epoch(self, ordinal: int, done: int, of: int | None) -> int:
        """The running epoch has done so many of its batches; gives the step that makes in the whole run."""
        self.running, self.completed, self._part, self.whole = ordinal, max(0, ordinal - 1), 0.0, None
        if of and done >= of:
            self.completed = ordinal
        elif of:
            self._part = done / of
        return self._batch_step(ordinal, done, of)

    def part_of_next(self, part: float) -> None:
        """Epochs are counted by something else; this much of the next one is done."""
        self._part, self.whole = (part, None) if part < 1 else (0.0, None)

    def at_step(self, step: int, steps: int | None = None, whole: float | None = None) -> int:
        self.step, self.steps, self.whole = min(step, MOST), steps, whole
        return self.step

    def unroll(self, printed: int) -> int:
        """The step of a count that may start again with each epoch: the passes are laid end to end."""
        last, passed = self._unrolled
        passed += last if printed < last else 0
        self._unrolled = (printed, passed)
        return passed + printed

    def here(self) -> int | None:
        """The step for a point whose line names none."""
        return self.step if self.step is not None else self.completed

    def for_epoch(self, ordinal: int) -> int:
        """The step for an epoch's own points: batches where they are counted, else the epoch."""
        return self.step if self.step is not None else ordinal

    def known(self) -> dict[str, object]:
        found = {
            "fraction": self._fraction(),
            "step": self.step,
            "steps": self.steps,
            "epoch": self.completed,
            "epochs": self.epochs,
            "message": self.message,
        }
        return {key: _bounded(value) for key, value in found.items() if value is not None}

    def _batch_step(self, ordinal: int, done: int, of: int | None) -> int:
        step = min((max(0, ordinal - 1)) * (of or 0) + done, MOST)
        self.step = max(step, self.step or 0)
        self.steps = of * self.epochs if of and self.epochs else None
        return self.step

    def _fraction(self) -> float | None:
        if self.whole is not None:
            return _share(self.whole)
        if not self.epochs or self.completed is None:
            return None
        return _share((self.completed + self._part) / self.epochs)


def _bounded(value: object) -> object:
    return min(value, MOST) if isinstance(value, int) else value


def _share(value: float) -> float | None:
    return round(min(1.0, max(0.0, value)), 6) if value == value else None
