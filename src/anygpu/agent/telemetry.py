"""How the machine is doing: processor, memory, disk, network, and GPUs where nvidia-smi is found."""

from __future__ import annotations

import os
import subprocess
import time

from anygpu.agent import descendants

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

GPU_FIELDS = "index,uuid,name,utilization.gpu,memory.used,memory.total,temperature.gpu,power.draw"
GPU_WAIT_S = 0.5
GPU_PATIENCE_S = 30.0


class Telemetry:
    """A chore of the loop.

    nvidia-smi may take a second, so it is started in one round and read in a later one.
    """

    def __init__(self, every_s: float, directory: str, report: Callable[[dict[str, Any]], None]) -> None:
        self._every_s = every_s
        self._directory = directory
        self._report = report
        self._cpu = cpu_seconds()
        self._net = net_bytes()
        self._at = time.monotonic()
        self._smi: subprocess.Popen[bytes] | None = None
        self._smi_since = 0.0
        self._has_gpus = True

    def measure(self, now: float) -> float:
        if self._smi is None and self._has_gpus:
            self._ask_for_gpus(now)
        if self._smi is not None and self._smi.poll() is None and now - self._smi_since < GPU_PATIENCE_S:
            return now + GPU_WAIT_S
        self._report(self._measured(now))
        return now + self._every_s

    def close(self) -> None:
        if self._smi is not None:
            self._smi.kill()
            self._gpus()

    def _measured(self, now: float) -> dict[str, Any]:
        elapsed_s, self._at = max(now - self._at, 1e-3), now
        cpu, net = cpu_seconds(), net_bytes()
        measured: dict[str, Any] = {
            "at": time.time(),
            "cpu": cpu_share(self._cpu, cpu),
            "memory": memory(),
            "disk": disk(self._directory),
            "net": {way: max(0, round((net[way] - self._net[way]) / elapsed_s)) for way in net},
            "gpus": self._gpus(),
        }
        self._cpu, self._net = cpu, net
        return measured

    def _ask_for_gpus(self, now: float) -> None:
        command = ["nvidia-smi", f"--query-gpu={GPU_FIELDS}", "--format=csv,noheader,nounits"]
        try:
            self._smi = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        except OSError:
            self._has_gpus = False
            return
        self._smi_since = now
        descendants.helpers.add(self._smi.pid)

    def _gpus(self) -> list[dict[str, Any]]:
        smi, self._smi = self._smi, None
        if smi is None:
            return []
        if smi.poll() is None:
            smi.kill()
        said, _ = smi.communicate()
        descendants.helpers.discard(smi.pid)
        self._has_gpus = smi.returncode == 0 or smi.returncode < 0
        return parse_gpus(said.decode("utf-8", "replace")) if smi.returncode == 0 else []


def parse_gpus(said: str) -> list[dict[str, Any]]:
    """nvidia-smi's CSV. What a card does not know is `[N/A]`, and becomes None."""
    gpus = []
    for line in said.splitlines():
        fields = [field.strip() for field in line.split(",")]
        if len(fields) != len(GPU_FIELDS.split(",")):
            continue
        use, used_mib, total_mib, celsius, watts = (_number(field) for field in fields[3:])
        gpus.append(
            {
                "index": int(_number(fields[0]) or 0),
                "uuid": fields[1],
                "name": fields[2],
                "use": None if use is None else use / 100,
                "memory_used": None if used_mib is None else int(used_mib * 2**20),
                "memory_total": None if total_mib is None else int(total_mib * 2**20),
                "temperature_c": celsius,
                "power_w": watts,
            }
        )
    return gpus


def _number(field: str) -> float | None:
    try:
        return float(field)
    except ValueError:
        return None


def cpu_seconds() -> tuple[float, float]:
    """(busy, all) ticks of all processors since the machine started."""
    said = _read("/proc/stat").split("\n", 1)[0].split()[1:9]
    if not said:
        return os.getloadavg()[0] * time.monotonic(), (os.cpu_count() or 1) * time.monotonic()
    ticks = [float(field) for field in said]
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)


def cpu_share(before: tuple[float, float], after: tuple[float, float]) -> float:
    total = after[1] - before[1]
    return round(min(max((after[0] - before[0]) / total, 0.0), 1.0), 4) if total > 0 else 0.0


def memory() -> dict[str, int]:
    fields = dict(line.split(":", 1) for line in _read("/proc/meminfo").splitlines() if ":" in line)
    if "MemAvailable" in fields:
        total, available = (int(fields[name].split()[0]) * 1024 for name in ("MemTotal", "MemAvailable"))
        return {"total": total, "used": total - available}
    return {"total": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), "used": 0}


def disk(directory: str) -> dict[str, int]:
    found = os.statvfs(directory)
    total = found.f_blocks * found.f_frsize
    return {
        "total": total,
        "used": total - found.f_bfree * found.f_frsize,
        "free": found.f_bavail * found.f_frsize,
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
