"""Metrics of the server process in the Prometheus text format, and telemetry of its host."""

import asyncio
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from time import monotonic, time
from typing import Any

from anygpu.agent.host import gpus, telemetry

BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


@dataclass(slots=True)
class Histogram:
    """A histogram of durations in seconds."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS_S) + 1))
    total_s: float = 0.0

    def observe(self, seconds: float) -> None:
        self.total_s += seconds
        for index, bound in enumerate(BUCKETS_S):
            if seconds <= bound:
                self.counts[index] += 1
                return
        self.counts[-1] += 1

    def lines(self, name: str) -> Iterator[str]:
        yield f"# TYPE {name} histogram"
        total = 0
        for bound, count in zip((*BUCKETS_S, "+Inf"), self.counts, strict=True):
            total += count
            yield f'{name}_bucket{{le="{bound}"}} {total}'
        yield f"{name}_sum {self.total_s}"
        yield f"{name}_count {total}"


@dataclass(slots=True)
class ServerMetrics:
    """Counters of this process, from its start on."""

    reports: int = 0
    points: int = 0
    log_bytes: int = 0
    report_s: Histogram = field(default_factory=Histogram)

    def record_report(self, points: int, log_bytes: int, seconds: float) -> None:
        self.reports += 1
        self.points += points
        self.log_bytes += log_bytes
        self.report_s.observe(seconds)


def prometheus_text(
    gauges: ServerMetrics, jobs: Mapping[str, int], live_attempts: int, followers: int
) -> str:
    """Return all metrics in the Prometheus text format."""
    lines = ["# TYPE anygpu_jobs gauge"]
    lines += [f'anygpu_jobs{{status="{status}"}} {count}' for status, count in sorted(jobs.items())]
    lines += _metric_lines("anygpu_live_attempts", "gauge", live_attempts)
    lines += _metric_lines("anygpu_stream_followers", "gauge", followers)
    lines += _metric_lines("anygpu_reports_total", "counter", gauges.reports)
    lines += _metric_lines("anygpu_metric_points_total", "counter", gauges.points)
    lines += _metric_lines("anygpu_log_bytes_total", "counter", gauges.log_bytes)
    lines += gauges.report_s.lines("anygpu_report_commit_seconds")
    return "\n".join(lines) + "\n"


def _metric_lines(name: str, kind: str, value: int) -> list[str]:
    return [f"# TYPE {name} {kind}", f"{name} {value}"]


MAX_AGE_S = 2.0
TIMEOUT_S = 5.0


class HostTelemetry:
    """Telemetry of this host, measured at most every two seconds. `gpus` is empty if nvidia-smi fails."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._measured_at = float("-inf")
        self._cpu = telemetry.cpu_ticks()
        self._sample: dict[str, Any] = {}

    async def latest(self) -> dict[str, Any]:
        if monotonic() - self._measured_at > MAX_AGE_S:
            self._measured_at = monotonic()
            self._sample = await asyncio.to_thread(self._measure)
        return self._sample

    def _measure(self) -> dict[str, Any]:
        before, self._cpu = self._cpu, telemetry.cpu_ticks()
        return {
            "at": time(),
            "cpu": telemetry.cpu_fraction(before, self._cpu),
            "memory": telemetry.memory_usage(),
            "disk": telemetry.disk_usage(self._directory),
            "gpus": _read_gpus(),
        }


def _read_gpus() -> list[dict[str, Any]]:
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    command = [program, f"--query-gpu={gpus.STATS_FIELDS}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return gpus.parse_gpu_stats(done.stdout)
