"""Progress bars: which one is the run itself, and which step of the run a bar's count is."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from anygpu.agent.reading.course import Course
    from anygpu.agent.reading.run import Run

MOST_BARS = 64
POINTS_A_PASS = 1000


class Bar:
    """One bar, over all the times it went from its start to its end."""

    def __init__(self, total: int | None) -> None:
        self.total = total
        self.count = 0
        self.passed = 0  # the counts of the passes before this one
        self.passes = 0
        self.told = -1

    def draw(self, count: int) -> None:
        if count < self.count:
            self.passed += self.total or self.count
            self.passes += 1
            self.told = -1
        self.count = count

    @property
    def share(self) -> float:
        return min(1.0, self.count / self.total) if self.total else 0.0

    @property
    def unfinished(self) -> bool:
        return bool(self.total) and self.count < (self.total or 0)

    def has_news(self) -> bool:
        """Values a bar shows while its count stays the same belong between two steps: they are left out."""
        if self.count == self.total:
            return True
        news = self.count not in (0, self.told)
        return news and (self.told < 0 or (self.count - self.told) * POINTS_A_PASS >= (self.total or 0))


class Bars:
    """All the bars of a run. The one that carries metrics is its axis; without one, any bar is."""

    def __init__(self, course: Course) -> None:
        self._course = course
        self._bars: dict[tuple[str, int | None], Bar] = {}
        self._axis: Bar | None = None
        self.epochs_are_a_bar = False

    def draw(self, key: str, count: int, total: int | None, has_metrics: bool) -> Bar:
        bar = self._bar(key, total)
        finished = not bar.unfinished
        bar.draw(count)
        if has_metrics:
            self._axis = bar
        if self._axis is None or self._axis is bar:
            self._advance(bar, finished)
        elif self._outer(self._axis) is bar:
            self._course.whole = self._whole(self._axis)
        return bar

    def draw_epochs(self, count: int, total: int) -> None:
        self.epochs_are_a_bar = True
        self._course.epoch_starts(count + 1, total)
        self._course.set_epochs(total)

    def _bar(self, key: str, total: int | None) -> Bar:
        if len(self._bars) >= MOST_BARS:
            self._bars.clear()
        return self._bars.setdefault((key, total), Bar(total))

    def _advance(self, bar: Bar, was_finished: bool) -> None:
        course = self._course
        if course.running is not None:
            if self.epochs_are_a_bar and was_finished and bar.passes and course.completed == course.running:
                course.running += 1  # the outer bar is redrawn late
            course.in_epoch(course.running, bar.count, bar.total)
        elif bar.passes or self._outer(bar):
            course.at_step(bar.passed + bar.count, None, self._whole(bar))
            if course.whole is None and course.epochs:
                course.part_of_next(bar.share)
        else:
            course.at_step(bar.count, bar.total, bar.share if bar.total else None)

    def _outer(self, bar: Bar) -> Bar | None:
        """The bar drawn first that is still under way: the loop around this one."""
        for other in self._bars.values():
            if other is bar:
                return None
            if other.unfinished and not other.passes:
                return other
        return None

    def _whole(self, bar: Bar) -> float | None:
        outer = self._outer(bar)
        if outer is None or not outer.total:
            return None
        return (outer.count + (bar.share if bar.share < 1 else 0.0)) / outer.total


def of(run: Run) -> Bars:
    bars: Bars = run.memory.setdefault("bars", Bars(run.course))
    return bars
