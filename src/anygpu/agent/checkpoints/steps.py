"""The steps that training reached and when: labels for checkpoint files, and where an attempt began.

Steps have one of three units. `step` and `epoch` are numbers that the script states itself. `count` is what a
progress bar shows: it counts the iterations of this process, and may start at 0 after a resume.
"""

from __future__ import annotations

import re
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Entry = tuple[float, int]  # when (Unix time), step

HISTORY_LIMIT = 4096
# A file and the report of its step are written at almost the same time, in any order, and the agent reads the report
# a little later. So a report belongs to a file if it came at most this long after the file, or at most this fraction
# of the time between two reports.
MAX_REPORT_DELAY_S = 1.0
REPORT_DELAY_FRACTION = 0.25
UNITS = ("step", "count", "epoch")  # the finest first
FIRST_STEP_FIELDS = {"step": "first_step", "count": "first_count", "epoch": "first_epoch"}
_NAMED_NUMBER = re.compile(r"(epoch|ep|step|iter|ckpt|checkpoint)[-_=]?0*(\d{1,15})", re.IGNORECASE)
_NUMBER = re.compile(r"\d{1,15}")


class StepLabel:
    """The step and the epoch that a checkpoint belongs to.

    `unit` is what the step counts: `step`, `epoch`, or `count` of a progress bar. It is empty if unknown.
    """

    __slots__ = ("epoch", "step", "unit")

    def __init__(self, step: int, unit: str = "", epoch: int | None = None) -> None:
        self.step = step
        self.unit = unit
        self.epoch = epoch


class StepHistory:
    """Records which step was reported when, by unit.

    `restored` is the step of the checkpoint that the attempt started from. `on_first` is called once for each
    unit, with the first step that was reported.
    """

    def __init__(
        self, restored: int = 0, on_first: Callable[[dict[str, int]], None] = lambda first: None
    ) -> None:
        self.restored = restored
        self._on_first = on_first
        self._series: dict[str, list[Entry]] = {}
        self._known_first: set[str] = set()

    def record(self, step: int | None, at: float | None = None, unit: str = "step") -> None:
        """Record a reported step. An empty unit means that it is not known what the number counts."""
        if step is None:
            return
        if unit and unit not in self._known_first:
            self._known_first.add(unit)
            self._on_first({FIRST_STEP_FIELDS[unit]: step})
        entries = self._series.setdefault(unit, [])
        if entries and step <= entries[-1][1]:
            return
        entries.append((time.time() if at is None else at, step))
        if len(entries) > HISTORY_LIMIT:
            half = HISTORY_LIMIT // 2
            self._series[unit] = entries[:half:2] + entries[half:]

    def forget(self, unit: str) -> None:
        """Remove all recorded steps of a unit, because the numbers in the output turned out to count something else."""
        self._series.pop(unit, None)

    def label_at(self, moment: float, name: str = "") -> StepLabel:
        """Return the label of a file that was written at `moment` (Unix time).

        A number in the file's `name` is preferred if it agrees with the reports.
        """
        epoch = _step_of(self._series.get("epoch", []), moment, name)
        for unit in (*UNITS, ""):
            step = _step_of(self._series.get(unit, []), moment, name)
            if step is not None:
                return StepLabel(step, unit, epoch)
        return StepLabel(self.restored) if self._series else _label_from_name(name, self.restored)

    def label_for(self, announced: int) -> StepLabel:
        """Return the label of a checkpoint whose step the script states.

        The unit is unknown if the script reports quite different steps: it then counts something else.
        """
        steps, epochs = self._series.get("step", []), self._series.get("epoch", [])
        differs = bool(steps) and abs(announced - steps[-1][1]) > max(10, steps[-1][1])
        return StepLabel(announced, "" if differs else "step", epochs[-1][1] if epochs else None)


def _step_of(entries: list[Entry], moment: float, name: str) -> int | None:
    """Return the step of a file that was written at `moment`, or None if nothing was reported by then."""
    after = next((index for index, (at, _) in enumerate(entries) if at > moment), len(entries))
    step = entries[after - 1][1] if after else None
    if after < len(entries) and _belongs_to_next(entries, after, moment):
        step = entries[after][1]
    nearby = _nearby_steps(entries, after)
    numbers = [int(digits) for digits in _NUMBER.findall(name)]
    return next((number for number in reversed(numbers) if number in nearby), step)


def _belongs_to_next(entries: list[Entry], after: int, moment: float) -> bool:
    delay_s = entries[after][0] - moment
    if after == 0:
        return delay_s <= MAX_REPORT_DELAY_S
    interval_s = entries[after][0] - entries[after - 1][0]
    return delay_s <= min(MAX_REPORT_DELAY_S, REPORT_DELAY_FRACTION * interval_s)


def _nearby_steps(entries: list[Entry], after: int) -> range:
    """Return the range of steps that are plausible for a file, from the reports just before and after it was written.

    `after` is the index of the first entry that was reported after the file was written.
    """
    if not entries:
        return range(0)
    steps = [step for _, step in entries[max(0, after - 2) : after + 1]]
    usual = steps[-1] - steps[-2] if len(steps) > 1 else 1
    last = steps[-1] if after < len(entries) else steps[-1] + max(1, usual)
    return range(steps[0], last + 1)


def _label_from_name(name: str, restored: int) -> StepLabel:
    """Return the label of a file of a script that reports nothing: `epoch_5.pt`, `checkpoint-400`."""
    numbers: Iterable[re.Match[str]] = _NAMED_NUMBER.finditer(name)
    found = [int(match[2]) for match in numbers]
    return StepLabel(found[-1] if found else restored)
