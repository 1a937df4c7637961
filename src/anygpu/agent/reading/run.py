"""What the families share while they read one run."""

from __future__ import annotations

from anygpu.agent.reading.course import Course
from anygpu.agent.reading.progress import Progress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

MOST_NAMES = 200
NAME_LIMIT = 100


class Run:
    """Where the run is, which points were told, and what waits to be told."""

    def __init__(self) -> None:
        self.now = 0.0
        self.course = Course()
        self.memory: dict[str, Any] = {}  # a family's own, under its own name
        self._progress = Progress()
        self._told: dict[str, tuple[int, float]] = {}
        self._counts: dict[str, int] = {}
        self._held: Callable[[int | None], object] | None = None
        self._readings: list[tuple[str, Any]] = []

    def points(
        self,
        step: int | None,
        pairs: Iterable[tuple[str, float]],
        changed_only: bool = False,
        at: float | None = None,
    ) -> bool:
        """Tells the points that are news. `changed_only` is for displays, which repeat themselves."""
        when = self.now if at is None else at
        points = []
        for name, value in pairs:
            place = self._place(" ".join(name.split())[:NAME_LIMIT].rstrip(), step, value, changed_only)
            if place:
                points.append((*place, when, value))
        if points:
            self._readings.append(("points", points))
        return bool(points)

    def hold(self, tell: Callable[[int | None], object]) -> None:
        """Keeps points back until the next line shows their step."""
        self.release(None)
        self._held = tell

    @property
    def awaits_step(self) -> bool:
        return self._held is not None

    def release(self, step: int | None) -> bool:
        held, self._held = self._held, None
        if held:
            held(step)
        return held is not None

    def tell_progress(self) -> None:
        self._append(self._progress.due(self.course.known(), self.now))

    def finish(self) -> None:
        self.release(None)
        self._append(self._progress.last(self.course.known()))

    def take(self) -> list[tuple[str, Any]]:
        readings, self._readings = self._readings, []
        return readings

    def _append(self, progress: dict[str, object] | None) -> None:
        if progress:
            self._readings.append(("progress", progress))

    def _place(self, name: str, step: int | None, value: float, changed_only: bool) -> tuple[str, int] | None:
        told = self._told.get(name)
        if not name or (told is None and len(self._told) >= MOST_NAMES):
            return None
        if step is None:
            step = self._counts[name] = self._counts.get(name, 0) + 1
        if told and _same(told[1], value) and (changed_only or told[0] == step):
            return None
        self._told[name] = (step, value)
        return name, step


def _same(a: float, b: float) -> bool:
    return a == b or (a != a and b != b)
