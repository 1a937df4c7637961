"""Measure CPU, memory, disk, network and GPUs of this machine."""

from __future__ import annotations

import os
import subprocess
import time

from anygpu.agent.host import processes
from anygpu.agent.host.gpus import STATS_FIELDS, parse_gpu_stats, query_command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any
GPU_POLL_S = 0.5
GPU_TIMEOUT_S = 30.0


class TelemetrySampler:
    """A periodic task that reports telemetry of the machine.

    nvidia-smi may take a second, so one call of `poll` starts it and a later call reads its output.
    """

    def __init__(self, every_s: float, directory: str, report: Callable[[dict[str, Any]], None]) -> None:
        self._every_s = every_s
        self._directory = directory
        self._report = report
        self._cpu = cpu_ticks()
        self._net = net_bytes()
        self._at = time.monotonic()
        self._smi: subprocess.Popen[bytes] | None = None
        self._smi_since = 0.0
        self._has_gpus = True

    def poll(self, now: float) -> float:
        if self._smi is None and self._has_gpus:
            self._start_gpu_query(now)
        if self._smi is not None and self._smi.poll() is None and now - self._smi_since < GPU_TIMEOUT_S:
            return now + GPU_POLL_S
        self._report(self._sample(now))
        return now + self._every_s

    def close(self) -> None:
        if self._smi is not None:
            self._smi.kill()
            self._finish_gpu_query()

    def _sample(self, now: float) -> dict[str, Any]:
        elapsed_s, self._at = max(now - self._at, 1e-3), now
        cpu, net = cpu_ticks(), net_bytes()
        sample: dict[str, Any] = {
            "at": time.time(),
            "cpu": cpu_fraction(self._cpu, cpu),
            "memory": memory_usage(),
            "disk": disk_usage(self._directory),
            "net": {way: max(0, round((net[way] - self._net[way]) / elapsed_s)) for way in net},
            "gpus": self._finish_gpu_query(),
        }
        self._cpu, self._net = cpu, net
        return sample

    def _start_gpu_query(self, now: float) -> None:
        try:
            self._smi = subprocess.Popen(
                query_command(STATS_FIELDS),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        except OSError:
            self._has_gpus = False
            return
        self._smi_since = now
        processes.helper_pids.add(self._smi.pid)

    def _finish_gpu_query(self) -> list[dict[str, Any]]:
        smi, self._smi = self._smi, None
        if smi is None:
            return []
        if smi.poll() is None:
            smi.kill()
        output, _ = smi.communicate()
        processes.helper_pids.discard(smi.pid)
        self._has_gpus = smi.returncode == 0 or smi.returncode < 0
        return parse_gpu_stats(output.decode("utf-8", "replace")) if smi.returncode == 0 else []


def cpu_ticks() -> tuple[float, float]:
    """Return (busy, total) clock ticks of all CPUs since the machine started."""
    fields = _read("/proc/stat").split("\n", 1)[0].split()[1:9]
    if not fields:
        return os.getloadavg()[0] * time.monotonic(), (os.cpu_count() or 1) * time.monotonic()
    ticks = [float(field) for field in fields]
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)


def cpu_fraction(before: tuple[float, float], after: tuple[float, float]) -> float:
    total = after[1] - before[1]
    return round(min(max((after[0] - before[0]) / total, 0.0), 1.0), 4) if total > 0 else 0.0


def memory_usage(root: str = "/") -> dict[str, int]:
    fields = dict(line.split(":", 1) for line in _read(f"{root}proc/meminfo").splitlines() if ":" in line)
    if "MemAvailable" in fields:
        total, available = (int(fields[name].split()[0]) * 1024 for name in ("MemTotal", "MemAvailable"))
        return {"total": total, "used": total - available}
    return {"total": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), "used": 0}


def disk_usage(directory: str) -> dict[str, int]:
    disk = os.statvfs(directory)
    total = disk.f_blocks * disk.f_frsize
    return {
        "total": total,
        "used": total - disk.f_bfree * disk.f_frsize,
        "free": disk.f_bavail * disk.f_frsize,
    }


def net_bytes() -> dict[str, int]:
    received = sent = 0
    for line in _read("/proc/net/dev").splitlines()[2:]:
        name, _, fields = line.partition(":")
        if name.strip() != "lo":
            numbers = fields.split()
            received, sent = received + int(numbers[0]), sent + int(numbers[8])
    return {"received": received, "sent": sent}


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""
