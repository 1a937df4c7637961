"""The status line of a running job: progress bar, time left, newest metrics."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from anygpu.cli.terminal import formatting
from anygpu.sdk.status import fraction_of

EIGHTHS = " ▏▎▍▌▋▊▉"


def bar(fraction: float, width: int) -> str:
    """Return a progress bar of `width` characters, with a resolution of an eighth of a character."""
    eighths = round(max(0.0, min(1.0, fraction)) * width * 8)
    full, rest = divmod(eighths, 8)
    part = EIGHTHS[rest] if rest else ""
    return ("█" * full + part).ljust(width, "░")


@dataclass(slots=True)
class TimeLeft:
    """An estimate of the time left, from the speed of the current attempt.

    A resumed attempt does not start at zero, so only the progress since its start counts.
    """

    attempt: int = 0
    began: tuple[float, float] | None = None
    newest: tuple[float, float] | None = None

    def observe(self, attempt: int, fraction: float | None, now: float) -> None:
        if fraction is None:
            return
        if attempt != self.attempt or self.began is None:
            self.attempt, self.began = attempt, (fraction, now)
        self.newest = (fraction, now)

    def seconds(self, now: float) -> float | None:
        if self.began is None or self.newest is None:
            return None
        done, took = self.newest[0] - self.began[0], self.newest[1] - self.began[1]
        if done <= 0 or took <= 0 or self.newest[0] >= 1:
            return None
        return max(0.0, (1 - self.newest[0]) / done * took - (now - self.newest[1]))


@dataclass(slots=True)
class StreamStatus:
    """The newest values from a job's stream, shown as a status line."""

    phase: str = "queued"
    attempt: int = 0
    progress: Mapping[str, Any] = field(default_factory=dict)
    metrics: dict[str, Any] = field(default_factory=dict)
    telemetry: Mapping[str, Any] = field(default_factory=dict)
    time_left: TimeLeft = field(default_factory=TimeLeft)
    began_at: float = field(default_factory=time.monotonic)

    def update(self, message: Mapping[str, Any], now: float) -> None:
        self.attempt = max(self.attempt, message.get("attempt") or 0)
        if message["kind"] == "progress":
            self.progress = message.get("progress") or self.progress
            self.telemetry = message.get("telemetry") or self.telemetry
            self.time_left.observe(self.attempt, fraction_of(self.progress), now)
        elif message["kind"] == "metrics":
            self.metrics.update({name: value for name, _, _, value in message["points"]})
        elif message["kind"] == "event":
            self.phase = PHASES.get(message["event"]["type"], self.phase)

    def line(self, width: int, now: float) -> str:
        """Return one line of at most `width` characters: bar, step, time left, newest metrics."""
        parts = [
            self._bar_text(width),
            self._position_text(),
            self._time_left_text(now),
            formatting.metrics(dict(self.metrics), 4),
        ]
        if self.attempt > 1:
            parts.append(f"attempt {self.attempt}")
        return formatting.truncate(" · ".join(part for part in parts if part), width)

    def _bar_text(self, width: int) -> str:
        fraction = fraction_of(self.progress)
        if fraction is None:
            return f"{self.phase} {formatting.duration(time.monotonic() - self.began_at)}"
        return f"▕{bar(fraction, max(6, min(30, width // 4)))}▏ {formatting.percent(fraction)}"

    def _position_text(self) -> str:
        for one, all_of_them in (("epoch", "epochs"), ("step", "steps")):
            if self.progress.get(one) is not None:
                total = self.progress.get(all_of_them)
                return f"{one} {self.progress[one]}" + (f"/{total}" if total else "")
        return ""

    def _time_left_text(self, now: float) -> str:
        left_s = self.time_left.seconds(now)
        return f"ETA {formatting.duration(left_s)}" if left_s is not None else ""


PHASES = {
    "JobWaited": "waiting",
    "AttemptLaunching": "starting",
    "AttemptQueued": "waiting",
    "AttemptClaimed": "preparing",
    "TrainingStarted": "training",
    "AttemptEnded": "finishing",
    "RecoveryStarted": "recovering",
}
