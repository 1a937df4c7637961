"""The server's own machine, measured the way agents measure theirs, at most every two seconds."""

import asyncio
import shutil
import subprocess
from time import monotonic, time
from typing import Any

from anygpu.agent import telemetry

AGE_S = 2.0
TIMEOUT_S = 5.0


class HostTelemetry:
    """Newest sample of this host. GPUs are empty where there are none, or where nvidia-smi does not answer."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._measured_at = float("-inf")
        self._cpu = telemetry.cpu_seconds()
        self._sample: dict[str, Any] = {}

    async def newest(self) -> dict[str, Any]:
        if monotonic() - self._measured_at > AGE_S:
            self._measured_at = monotonic()
            self._sample = await asyncio.to_thread(self._measure)
        return self._sample

    def _measure(self) -> dict[str, Any]:
        before, self._cpu = self._cpu, telemetry.cpu_seconds()
        return {
            "at": time(),
            "cpu": telemetry.cpu_share(before, self._cpu),
            "memory": telemetry.memory(),
            "disk": telemetry.disk(self._directory),
            "gpus": _gpus(),
        }


def _gpus() -> list[dict[str, Any]]:
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    command = [program, f"--query-gpu={telemetry.GPU_FIELDS}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return telemetry.parse_gpus(done.stdout)
