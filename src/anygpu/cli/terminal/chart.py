"""Line charts drawn with braille characters, and the metric curves of a job."""

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from anygpu.cli.terminal import formatting
from anygpu.sdk.client import Client
from anygpu.sdk.stream import StreamCursor

Point = tuple[float, float]
BLANK = 0x2800
MAX_FLOAT = sys.float_info.max
# The bit of each dot in a braille character: BITS[row][column], rows from the top.
BITS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))


class Canvas:
    """A grid of dots. Each character holds two columns and four rows of dots."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width * 2, height * 4
        self._cells = [[0] * width for _ in range(height)]

    def dot(self, x: int, y: int) -> None:
        """Set the dot at column `x` from the left and row `y` from the bottom."""
        row = self.height - 1 - y
        self._cells[row // 4][x // 2] |= BITS[row % 4][x % 2]

    def line(self, start: tuple[int, int], end: tuple[int, int]) -> None:
        (x, y), (to_x, to_y) = start, end
        steps = max(abs(to_x - x), abs(to_y - y), 1)
        for step in range(steps + 1):
            self.dot(round(x + (to_x - x) * step / steps), round(y + (to_y - y) * step / steps))

    def rows(self) -> Iterator[str]:
        yield from ("".join(chr(BLANK | cell) if cell else " " for cell in row) for row in self._cells)


def chart(title: str, points: Sequence[Point], *, width: int, height: int) -> list[str]:
    """Return the lines of a chart with a title and the ranges of both axes.

    The chart has `height` lines and is at most `width` characters wide.
    """
    finite = [(x, y) for x, y in points if math.isfinite(x) and math.isfinite(y)]
    heading = f"{title}  {formatting.metric(finite[-1][1])}" if finite else f"{title}  (no points yet)"
    low, high = _range([y for _, y in finite])
    labels = _labels(low, high, height) if finite else [""] * height
    margin = max(len(label) for label in labels)
    canvas = Canvas(max(4, width - margin - 1), height)
    _draw(canvas, finite, low, high)
    body = [f"{label:>{margin}}┤{row}" for label, row in zip(labels, canvas.rows(), strict=True)]
    return [heading[:width], *body, _axis(finite, margin, width)]


def _draw(canvas: Canvas, points: Sequence[Point], low: float, high: float) -> None:
    if not points:
        return
    left, right = _range([x for x, _ in points])
    places = [(_scale(x, left, right, canvas.width), _scale(y, low, high, canvas.height)) for x, y in points]
    for before, after in zip(places, places[1:] or places, strict=False):
        canvas.line(before, after)


def _scale(value: float, low: float, high: float, size: int) -> int:
    # Halve first: the difference of two huge numbers can exceed the largest float.
    span = high / 2 - low / 2
    share = (value / 2 - low / 2) / span if span > 0 else 0.5
    return min(size - 1, max(0, round(share * (size - 1))))


def _range(values: Sequence[float]) -> tuple[float, float]:
    if not values:
        return 0.0, 1.0
    low, high = min(values), max(values)
    if low < high:
        return low, high
    room = abs(low) * 0.1 or 0.5
    return max(low - room, -MAX_FLOAT), min(high + room, MAX_FLOAT)


def _labels(low: float, high: float, height: int) -> list[str]:
    labels = [""] * height
    labels[0] = formatting.metric(high)
    labels[-1] = formatting.metric(low)
    return labels


def _axis(points: Sequence[Point], margin: int, width: int) -> str:
    if not points:
        return ""
    left, right = formatting.metric(points[0][0]), f"step {formatting.metric(points[-1][0])}"
    gap = max(1, width - margin - 1 - len(left) - len(right))
    return (" " * (margin + 1) + left + " " * gap + right)[:width]


def side_by_side(blocks: Sequence[Sequence[str]], width: int, gap: int = 2) -> list[str]:
    """Return blocks of lines placed next to each other, each padded to `width` characters."""
    tallest = max((len(block) for block in blocks), default=0)
    filled = [[*block, *[""] * (tallest - len(block))] for block in blocks]
    return [
        (" " * gap).join(line.ljust(width) for line in lines).rstrip() for lines in zip(*filled, strict=True)
    ]


MAX_POINTS = 4000
PREFERRED = ("loss", "acc", "map", "f1", "auc", "error", "reward")


@dataclass(slots=True)
class Curve:
    """The values of one metric by step.

    If a resumed attempt repeats steps, its values replace the earlier ones.
    """

    points: list[tuple[float, float]] = field(default_factory=list)

    def add(self, step: float, value: Any) -> None:
        while self.points and self.points[-1][0] >= step:
            self.points.pop()
        self.points.append((step, float(value)))
        if len(self.points) > MAX_POINTS:
            self.points = self.points[::2]


@dataclass(slots=True)
class Curves:
    """The curves of a job's metrics, and the choice of metrics to show."""

    chosen: Sequence[str] = ()
    by_name: dict[str, Curve] = field(default_factory=dict)

    def add_points(self, points: Sequence[Sequence[Any]]) -> None:
        for name, step, _, value in points:
            self.by_name.setdefault(name, Curve()).add(step, value)

    def load(self, client: Client, job: Mapping[str, Any]) -> StreamCursor:
        """Load the points stored so far, downsampled. Return the stream cursor that follows them."""
        cursor = StreamCursor()
        for attempt in [each["number"] for each in job.get("attempts") or []]:
            metrics = client.metrics(job["id"], points=500, attempt=attempt)
            for series in metrics["series"]:
                self.add_points([(series["name"], step, at, value) for step, at, value in series["points"]])
            cursor = StreamCursor(attempt=attempt, point=metrics["cursor"])
        return cursor

    def shown_names(self) -> list[str]:
        """Return the names of the chosen metrics; by default losses and accuracies, then the others."""
        if self.chosen:
            return list(self.chosen)
        preferred = [name for word in PREFERRED for name in self.by_name if word in name.lower()]
        return list(dict.fromkeys([*preferred, *self.by_name]))

    def as_dict(self) -> dict[str, list[tuple[float, float]]]:
        """Return the (step, value) points of each shown metric."""
        return {name: self.by_name[name].points for name in self.shown_names() if name in self.by_name}

    def lines(self, width: int, height: int, most: int = 4) -> list[str]:
        """Return the lines of the charts, two charts side by side if the terminal is wide enough."""
        names = self.shown_names()[:most]
        if not names:
            return ["No metrics yet."]
        columns = 2 if width >= 90 and len(names) > 1 else 1
        each = (width - 2 * (columns - 1)) // columns
        blocks = [self._chart(name, each, height) for name in names]
        lines: list[str] = []
        for first in range(0, len(blocks), columns):
            lines += side_by_side(blocks[first : first + columns], each)
        return lines

    def _chart(self, name: str, width: int, height: int) -> list[str]:
        points = self.by_name[name].points if name in self.by_name else []
        return chart(name, points, width=width, height=height)
