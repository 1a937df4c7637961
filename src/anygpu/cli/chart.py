"""A line chart in braille: eight dots a character, drawn for a terminal of any width."""

import math
import sys
from collections.abc import Iterator, Sequence

from anygpu.cli import words

Point = tuple[float, float]
BLANK = 0x2800
MOST = sys.float_info.max
# The dot of each place in a character: BITS[row][column], rows from the top.
BITS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))


class Canvas:
    """A grid of dots, two by four in a character."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width * 2, height * 4
        self._cells = [[0] * width for _ in range(height)]

    def dot(self, x: int, y: int) -> None:
        """x from the left, y from the bottom."""
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
    """A titled chart of `height` lines of curve, with the range of both axes; never wider than `width`."""
    finite = [(x, y) for x, y in points if math.isfinite(x) and math.isfinite(y)]
    heading = f"{title}  {words.metric(finite[-1][1])}" if finite else f"{title}  (no points yet)"
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
    places = [(_place(x, left, right, canvas.width), _place(y, low, high, canvas.height)) for x, y in points]
    for before, after in zip(places, places[1:] or places, strict=False):
        canvas.line(before, after)


def _place(value: float, low: float, high: float, size: int) -> int:
    # Halved first: the difference of two huge numbers may be beyond what a float holds.
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
    return max(low - room, -MOST), min(high + room, MOST)


def _labels(low: float, high: float, height: int) -> list[str]:
    labels = [""] * height
    labels[0] = words.metric(high)
    labels[-1] = words.metric(low)
    return labels


def _axis(points: Sequence[Point], margin: int, width: int) -> str:
    if not points:
        return ""
    left, right = words.metric(points[0][0]), f"step {words.metric(points[-1][0])}"
    gap = max(1, width - margin - 1 - len(left) - len(right))
    return (" " * (margin + 1) + left + " " * gap + right)[:width]


def beside(blocks: Sequence[Sequence[str]], width: int, gap: int = 2) -> list[str]:
    """Blocks of lines next to each other, each padded to `width`."""
    tallest = max((len(block) for block in blocks), default=0)
    filled = [[*block, *[""] * (tallest - len(block))] for block in blocks]
    return [
        (" " * gap).join(line.ljust(width) for line in lines).rstrip() for lines in zip(*filled, strict=True)
    ]
