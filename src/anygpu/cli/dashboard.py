"""What `watch` and the demo draw: status, bar, charts, metrics and the machine."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from anygpu.cli import jobs, paint, words
from anygpu.cli.bar import Pulse, bar
from anygpu.cli.curves import Curves
from anygpu.sdk.status import fraction_of


@dataclass(slots=True)
class Dashboard:
    """A job as a picture; fed with its stream's messages."""

    job: Mapping[str, Any]
    pulse: Pulse
    curves: Curves
    height: int = 8

    def seed(self) -> None:
        """Begin with what the server knows, so that the first picture is not empty."""
        self.pulse.attempt = self.job.get("attempt") or 0
        self.pulse.metrics.update(self.job.get("metrics") or {})
        self.take(
            {"kind": "progress", "progress": self.job.get("progress"), "telemetry": self.job.get("telemetry")}
        )

    def take(self, message: Mapping[str, Any]) -> None:
        self.pulse.take(message, time.monotonic())
        if message["kind"] == "metrics":
            self.curves.take(message["points"])

    def lines(self, width: int, *, colour: bool | None = None) -> list[str]:
        painted = paint.wanted() if colour is None else colour
        return [
            self._title(painted),
            self._progress(width),
            *self._expected(width),
            "",
            *self.curves.lines(width, self.height),
            "",
            *[words.cut(line, width) for line in (self._metrics(), *machine(self.pulse.telemetry)) if line],
        ]

    def told(self) -> dict[str, Any]:
        """The same for a program: the job, and the points of the curves that are shown."""
        return {"job": self.job, "curves": self.curves.told()}

    def one_line(self, width: int) -> str:
        return f"{jobs.status(self.job):<10} {self.pulse.line(max(20, width - 11), time.monotonic())}"

    def _title(self, painted: bool) -> str:
        hue = paint.BY_STATUS.get(self.job["status"], "dim")
        state = paint.paint(jobs.status(self.job), hue, on=painted)
        name = paint.paint(self.job.get("name") or words.short_id(self.job["id"]), "bold", on=painted)
        tries = f" · attempt {self.pulse.attempt}" if self.pulse.attempt > 1 else ""
        place = f" · on {self.job['backend']}" if self.job.get("backend") else ""
        reason = f" · {self.job['reason']}" if self.job.get("reason") else ""
        return f"{name} · {state}{place}{tries}{reason}"

    def _progress(self, width: int) -> str:
        now = self.pulse.progress
        left = self.pulse.eta.left_s(time.monotonic())
        parts = [jobs.progress(now), f"ETA {words.duration(left)}" if left is not None else ""]
        told = " · ".join(part for part in parts if part)
        room = max(10, min(60, width - len(told) - 4))
        return words.cut(f"▕{bar(fraction_of(now) or 0, room)}▏ {told}", width)

    def _expected(self, width: int) -> list[str]:
        told = {"expected": jobs.expected(self.job), "better": jobs.better(self.job)}
        return [words.cut(f"{name}: {text}", width) for name, text in told.items() if text]

    def _metrics(self) -> str:
        return words.metrics(self.pulse.metrics, 12)


def machine(telemetry: Mapping[str, Any]) -> list[str]:
    """The host in a line, and a line for each GPU."""
    parts = []
    if telemetry.get("cpu") is not None:
        parts.append(f"cpu {words.percent(telemetry['cpu'])}")
    for name in ("memory", "disk"):
        part = telemetry.get(name) or {}
        if part.get("used") is not None:
            total = f" of {words.size(part['total'])}" if part.get("total") else ""
            parts.append(f"{name} {words.size(part['used'])}{total}")
    gpus = [_gpu(number, gpu) for number, gpu in enumerate(telemetry.get("gpus") or [])]
    return [*([" · ".join(parts)] if parts else []), *gpus]


def _gpu(number: int, gpu: Mapping[str, Any]) -> str:
    told = " · ".join(
        f"{key} {words.metric(value)}" for key, value in gpu.items() if isinstance(value, int | float)
    )
    return f"gpu {number} {gpu.get('name') or ''}: {told}"
