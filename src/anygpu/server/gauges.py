"""Numbers about the server itself, as Prometheus reads them.

A dozen counters need no library: the text format is one line each.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


@dataclass(slots=True)
class Histogram:
    """How long something took, in seconds."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_S) + 1))
    total_s: float = 0.0

    def observe(self, seconds: float) -> None:
        self.total_s += seconds
        for place, bound in enumerate(BOUNDS_S):
            if seconds <= bound:
                self.counts[place] += 1
                return
        self.counts[-1] += 1

    def lines(self, name: str) -> Iterator[str]:
        yield f"# TYPE {name} histogram"
        seen = 0
        for bound, count in zip((*BOUNDS_S, "+Inf"), self.counts, strict=True):
            seen += count
            yield f'{name}_bucket{{le="{bound}"}} {seen}'
        yield f"{name}_sum {self.total_s}"
        yield f"{name}_count {seen}"


@dataclass(slots=True)
class Gauges:
    """Counted in this process since it started."""

    reports: int = 0
    points: int = 0
    log_bytes: int = 0
    report_s: Histogram = field(default_factory=Histogram)

    def reported(self, points: int, log_bytes: int, seconds: float) -> None:
        self.reports += 1
        self.points += points
        self.log_bytes += log_bytes
        self.report_s.observe(seconds)


def exposition(gauges: Gauges, jobs: Mapping[str, int], live_attempts: int, followers: int) -> str:
    """The whole page."""
    lines = ["# TYPE anygpu_jobs gauge"]
    lines += [f'anygpu_jobs{{status="{status}"}} {count}' for status, count in sorted(jobs.items())]
    lines += _single("anygpu_live_attempts", "gauge", live_attempts)
    lines += _single("anygpu_stream_followers", "gauge", followers)
    lines += _single("anygpu_reports_total", "counter", gauges.reports)
    lines += _single("anygpu_metric_points_total", "counter", gauges.points)
    lines += _single("anygpu_log_bytes_total", "counter", gauges.log_bytes)
    lines += gauges.report_s.lines("anygpu_report_commit_seconds")
    return "\n".join(lines) + "\n"


def _single(name: str, kind: str, value: int) -> list[str]:
    return [f"# TYPE {name} {kind}", f"{name} {value}"]
