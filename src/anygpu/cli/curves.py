"""The curves of a job: points of every attempt joined to what training really went through."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from anygpu.cli import chart
from anygpu.sdk.client import Client
from anygpu.sdk.stream import Cursor

MOST_POINTS = 4000
PREFERRED = ("loss", "acc", "map", "f1", "auc", "error", "reward")


@dataclass(slots=True)
class Curve:
    """One metric over steps. A resumed attempt goes back; what it repeats replaces what was lost."""

    points: list[tuple[float, float]] = field(default_factory=list)

    def add(self, step: float, value: Any) -> None:
        while self.points and self.points[-1][0] >= step:
            self.points.pop()
        self.points.append((step, float(value)))
        if len(self.points) > MOST_POINTS:
            self.points = self.points[::2]


@dataclass(slots=True)
class Curves:
    """Every metric of a job, and which of them to show."""

    chosen: Sequence[str] = ()
    by_name: dict[str, Curve] = field(default_factory=dict)

    def take(self, points: Sequence[Sequence[Any]]) -> None:
        for name, step, _, value in points:
            self.by_name.setdefault(name, Curve()).add(step, value)

    def load(self, client: Client, job: Mapping[str, Any]) -> Cursor:
        """What was measured so far, thinned out; the cursor to follow from."""
        cursor = Cursor()
        for attempt in [each["number"] for each in job.get("attempts") or []]:
            found = client.metrics(job["id"], points=500, attempt=attempt)
            for series in found["series"]:
                self.take([(series["name"], step, at, value) for step, at, value in series["points"]])
            cursor = Cursor(attempt=attempt, point=found["cursor"])
        return cursor

    def shown(self) -> list[str]:
        """The metrics asked for; else those people look at first."""
        if self.chosen:
            return list(self.chosen)
        liked = [name for word in PREFERRED for name in self.by_name if word in name.lower()]
        return list(dict.fromkeys([*liked, *self.by_name]))

    def told(self) -> dict[str, list[tuple[float, float]]]:
        """Each metric shown, as points of step and value."""
        return {name: self.by_name[name].points for name in self.shown() if name in self.by_name}

    def lines(self, width: int, height: int, most: int = 4) -> list[str]:
        """Charts that fill a width: two beside each other where there is room."""
        names = self.shown()[:most]
        if not names:
            return ["no metrics yet"]
        columns = 2 if width >= 90 and len(names) > 1 else 1
        each = (width - 2 * (columns - 1)) // columns
        blocks = [self._block(name, each, height) for name in names]
        lines: list[str] = []
        for first in range(0, len(blocks), columns):
            lines += chart.beside(blocks[first : first + columns], each)
        return lines

    def _block(self, name: str, width: int, height: int) -> list[str]:
        points = self.by_name[name].points if name in self.by_name else []
        return chart.chart(name, points, width=width, height=height)
