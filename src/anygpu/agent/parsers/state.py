"""State shared by the parsers while they read the output of one run."""

from __future__ import annotations

from anygpu.bounds import is_metric_name, valid_progress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

MAX_COUNT = 10**15


class RunPosition:
    """The epoch and step that a run has reached. Epochs count from 1, even if the script counts from 0."""

    def __init__(self) -> None:
        self.epoch_count: int | None = None
        self.completed_epochs: int | None = None
        self.running_epoch: int | None = None
        self.zero_based = False
        self.step: int | None = None
        self.step_count: int | None = None
        self.message: str | None = None
        self.run_fraction: float | None = None  # the fraction of the whole run, if the output contains it
        self.step_unit = "step"  # `count` if a progress bar counts; empty if the count restarts in each epoch
        self.epoch_unit = "epoch"  # `count` if a progress bar counts
        self._unrolled = (0, 0)
        self._epoch_fraction = 0.0  # of the running epoch

    def epoch_number(self, printed: int) -> int:
        """Convert a printed epoch to a number that counts from 1.

        A printed 0 shows that the script counts from 0.
        """
        if printed == 0:
            self.zero_based = True
        return min(printed, MAX_COUNT) + (1 if self.zero_based else 0)

    def set_epoch_count(self, total: int | None, ordinal: int = 0) -> None:
        """Set the total number of epochs. `ordinal` is the current epoch, counted from 1.

        A script that counts from 0 may print `Epoch 24/24` for the 25th epoch; the total is then 25.
        """
        if total:
            self.epoch_count = max(min(total, MAX_COUNT), ordinal if self.zero_based else 0)

    def start_epoch(self, ordinal: int, total: int | None = None) -> None:
        self.set_epoch_count(total, ordinal)
        self.running_epoch, self.completed_epochs, self._epoch_fraction, self.run_fraction = (
            ordinal,
            max(0, ordinal - 1),
            0.0,
            None,
        )

    def end_epoch(self, ordinal: int, total: int | None = None) -> None:
        self.set_epoch_count(total, ordinal)
        self.running_epoch, self.completed_epochs, self._epoch_fraction, self.run_fraction = (
            None,
            ordinal,
            0.0,
            None,
        )

    def advance_in_epoch(self, ordinal: int, done: int, of: int | None) -> int:
        """Set the position to `done` of `of` batches in epoch `ordinal`. Return the step in the whole run."""
        self.running_epoch, self.completed_epochs, self._epoch_fraction, self.run_fraction = (
            ordinal,
            max(0, ordinal - 1),
            0.0,
            None,
        )
        if of and done >= of:
            self.completed_epochs = ordinal
        elif of:
            self._epoch_fraction = done / of
        if self.epoch_unit != "epoch":
            self.step_unit = self.epoch_unit
        return self._batch_step(ordinal, done, of)

    def set_epoch_fraction(self, part: float) -> None:
        """Set the completed fraction of the running epoch.

        Used for scripts that print the number of the epoch on another line.
        """
        self._epoch_fraction, self.run_fraction = (part, None) if part < 1 else (0.0, None)

    def set_step(self, step: int, steps: int | None = None, whole: float | None = None) -> int:
        self.step, self.step_count, self.run_fraction = min(step, MAX_COUNT), steps, whole
        return self.step

    def unroll_step(self, printed: int, in_epoch: bool = False) -> int:
        """Return the step counted from the start of the run.

        `printed` is the count in the output, which may restart from 0 in each epoch. With `in_epoch`, the
        number of the epoch was printed too.
        """
        last, passed = self._unrolled
        passed += last if printed < last else 0
        self._unrolled = (printed, passed)
        if passed or in_epoch:
            self.step_unit = ""
        return passed + printed

    def current_step(self) -> int | None:
        """Return the step for metrics on a line without a step.

        This is the current step; if no step is known, it is the number of completed epochs.
        """
        return self.step if self.step is not None else self.completed_epochs

    def step_for_epoch(self, ordinal: int) -> int:
        """Return the step for metrics of the whole epoch `ordinal`.

        This is the current step; if no step is known, it is the number of the epoch.
        """
        return self.step if self.step is not None else ordinal

    def steps_by_unit(self) -> dict[str, int]:
        """Return the step and the completed epochs by their units. Those that are unknown have no key."""
        found = {self.epoch_unit: self.completed_epochs}
        if self.step is not None and self.step_unit:
            found[self.step_unit] = self.step
        return {unit: step for unit, step in found.items() if step is not None}

    def as_progress(self) -> dict[str, object]:
        found = {
            "fraction": self._fraction(),
            "step": self.step,
            "steps": self.step_count,
            "epoch": self.completed_epochs,
            "epochs": self.epoch_count,
            "message": self.message,
        }
        return valid_progress({key: _clamp_count(value) for key, value in found.items() if value is not None})

    def _batch_step(self, ordinal: int, done: int, of: int | None) -> int:
        step = min((max(0, ordinal - 1)) * (of or 0) + done, MAX_COUNT)
        self.step = max(step, self.step or 0)
        self.step_count = of * self.epoch_count if of and self.epoch_count else None
        return self.step

    def _fraction(self) -> float | None:
        if self.run_fraction is not None:
            return _clamp_fraction(self.run_fraction)
        if not self.epoch_count or self.completed_epochs is None:
            return None
        return _clamp_fraction((self.completed_epochs + self._epoch_fraction) / self.epoch_count)


def _clamp_count(value: object) -> object:
    return min(value, MAX_COUNT) if isinstance(value, int) else value


def _clamp_fraction(value: float) -> float | None:
    return round(min(1.0, max(0.0, value)), 6) if value == value else None


MIN_GAP_S = 0.25


class ProgressThrottle:
    """Limits progress to one reading per MIN_GAP_S. The last reading of a run is never dropped."""

    def __init__(self) -> None:
        self._emitted: dict[str, object] = {}
        self._emitted_at: float | None = None

    def due(self, progress: dict[str, object], now: float) -> dict[str, object] | None:
        if progress == self._emitted or not self._may_emit(now):
            return None
        self._emitted, self._emitted_at = progress, now
        return dict(progress)

    def last(self, progress: dict[str, object]) -> dict[str, object] | None:
        return dict(progress) if progress != self._emitted else None

    def _may_emit(self, now: float) -> bool:
        emitted_at = self._emitted_at
        # If the clock was set back, continue at once.
        return emitted_at is None or now < emitted_at or now - emitted_at >= MIN_GAP_S


MAX_NAMES = 200
MAX_NAME_LENGTH = 100


class RunState:
    """The position of a run (epoch and step), and the readings of its parsers.

    The readings are metric points and progress that the `OutputReader` has not returned yet.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.position = RunPosition()
        self.memory: dict[str, Any] = {}  # values that a parser keeps between lines
        self.first_steps: dict[str, int] = {}  # by unit
        self._progress = ProgressThrottle()
        self._last_points: dict[str, tuple[int, float]] = {}
        self._counts: dict[str, int] = {}
        self._held: Callable[[int | None], object] | None = None
        self._readings: list[tuple[str, Any]] = []

    def add_points(
        self,
        step: int | None,
        pairs: Iterable[tuple[str, float]],
        changed_only: bool = False,
        at: float | None = None,
    ) -> bool:
        """Add the metric points that are new, and return whether there were any.

        With `changed_only`, a value that equals the last value of its metric is not new, even at another
        step. This is for progress bars, which repeat their values.
        """
        when = self.now if at is None else at
        points = []
        for name, value in pairs:
            point = self._new_point(
                " ".join(name.split())[:MAX_NAME_LENGTH].rstrip(), step, value, changed_only
            )
            if point:
                points.append((*point, when, value))
        if points:
            self._readings.append(("points", points))
        return bool(points)

    def hold_points(self, add: Callable[[int | None], object]) -> None:
        """Hold metric points back until a later line shows their step. `add` is then called with that step."""
        self.release_points(None)
        self._held = add

    @property
    def awaits_step(self) -> bool:
        return self._held is not None

    def release_points(self, step: int | None) -> bool:
        held, self._held = self._held, None
        if held:
            held(step)
        return held is not None

    def record_first_steps(self) -> None:
        for unit, step in self.position.steps_by_unit().items():
            self.first_steps.setdefault(unit, step)

    def emit_progress(self) -> None:
        self._append(self._progress.due(self.position.as_progress(), self.now))

    def finish(self) -> None:
        self.release_points(None)
        self._append(self._progress.last(self.position.as_progress()))

    def take_readings(self) -> list[tuple[str, Any]]:
        readings, self._readings = self._readings, []
        return readings

    def _append(self, progress: dict[str, object] | None) -> None:
        if progress:
            self._readings.append(("progress", progress))

    def _new_point(
        self, name: str, step: int | None, value: float, changed_only: bool
    ) -> tuple[str, int] | None:
        last = self._last_points.get(name)
        if last is None and (len(self._last_points) >= MAX_NAMES or not is_metric_name(name)):
            return None
        if step is None:
            step = self._counts[name] = self._counts.get(name, 0) + 1
        step = min(step, MAX_COUNT)
        if last and _is_same_value(last[1], value) and (changed_only or last[0] == step):
            return None
        self._last_points[name] = (step, value)
        return name, step


def _is_same_value(a: float, b: float) -> bool:
    return a == b or (a != a and b != b)
