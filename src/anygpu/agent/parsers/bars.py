"""Progress bars: find the bar that counts training steps, and convert its count to a step of the run."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from anygpu.agent.parsers.state import RunPosition, RunState

MAX_BARS = 64
POINTS_PER_PASS = 1000


class ProgressBar:
    """A progress bar. It may run from start to end several times, for example once per epoch."""

    def __init__(self, total: int | None) -> None:
        self.total = total
        self.count = 0
        self.passes_count = 0  # the sum of the counts of earlier passes
        self.passes = 0
        self.reported_count = -1

    def update(self, count: int) -> None:
        if count < self.count:
            self.passes_count += self.total or self.count
            self.passes += 1
            self.reported_count = -1
        self.count = count

    @property
    def fraction(self) -> float:
        return min(1.0, self.count / self.total) if self.total else 0.0

    @property
    def is_unfinished(self) -> bool:
        return bool(self.total) and self.count < (self.total or 0)

    def should_report(self) -> bool:
        """Return whether to report the bar's metrics now: its count has changed enough, or it is full."""
        if self.count == self.total:
            return True
        news = self.count not in (0, self.reported_count)
        return news and (
            self.reported_count < 0
            or (self.count - self.reported_count) * POINTS_PER_PASS >= (self.total or 0)
        )


class ProgressBars:
    """All progress bars of a run.

    The step of the run is read from the bar that shows metrics. If no bar shows metrics, it is read from any
    bar.
    """

    def __init__(self, position: RunPosition) -> None:
        self._position = position
        self._bars: dict[tuple[str, int | None], ProgressBar] = {}
        self._step_bar: ProgressBar | None = None
        self.epochs_are_a_bar = False

    def draw(self, key: str, count: int, total: int | None, has_metrics: bool) -> ProgressBar:
        bar = self._bar(key, total)
        finished = not bar.is_unfinished
        bar.update(count)
        if has_metrics:
            self._step_bar = bar
        if self._step_bar is None or self._step_bar is bar:
            self._advance(bar, finished)
        elif self._outer_bar(self._step_bar) is bar:
            self._position.run_fraction = self._run_fraction(self._step_bar)
        return bar

    def draw_epochs(self, count: int, total: int) -> None:
        self.epochs_are_a_bar = True
        self._position.epoch_unit = "count"
        self._position.start_epoch(count + 1, total)
        self._position.set_epoch_count(total)

    def _bar(self, key: str, total: int | None) -> ProgressBar:
        if len(self._bars) >= MAX_BARS:
            self._bars.clear()
        return self._bars.setdefault((key, total), ProgressBar(total))

    def _advance(self, bar: ProgressBar, was_finished: bool) -> None:
        position = self._position
        if position.running_epoch is not None:
            if (
                self.epochs_are_a_bar
                and was_finished
                and bar.passes
                and position.completed_epochs == position.running_epoch
            ):
                position.running_epoch += 1  # the outer bar is updated late
            position.advance_in_epoch(position.running_epoch, bar.count, bar.total)
            return
        position.step_unit = "count"
        if bar.passes or self._outer_bar(bar):
            position.set_step(bar.passes_count + bar.count, None, self._run_fraction(bar))
            if position.run_fraction is None and position.epoch_count:
                position.set_epoch_fraction(bar.fraction)
        else:
            position.set_step(bar.count, bar.total, bar.fraction if bar.total else None)

    def _outer_bar(self, bar: ProgressBar) -> ProgressBar | None:
        """Return the progress bar of the loop around the loop of `bar`; None if there is none.

        This is the first earlier bar that is not finished.
        """
        for other in self._bars.values():
            if other is bar:
                return None
            if other.is_unfinished and not other.passes:
                return other
        return None

    def _run_fraction(self, bar: ProgressBar) -> float | None:
        outer = self._outer_bar(bar)
        if outer is None or not outer.total:
            return None
        return (outer.count + (bar.fraction if bar.fraction < 1 else 0.0)) / outer.total


def bars_of(state: RunState) -> ProgressBars:
    bars: ProgressBars = state.memory.setdefault("bars", ProgressBars(state.position))
    return bars
