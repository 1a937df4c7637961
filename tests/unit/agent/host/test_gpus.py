"""GPUs read from nvidia-smi's output."""

from __future__ import annotations

from pathlib import Path

import pytest

from anygpu.agent.host import gpus
from anygpu.agent.host.gpus import parse_gpu_stats


def test_gpus_are_read_from_nvidia_smi_and_unknown_values_stay_unknown() -> None:
    said = "0, GPU-1a, NVIDIA A100, 87, 1024, 40960, 61, 251.3\n1, GPU-2b, Tesla T4, [N/A], 0, 15360, 40, [N/A]\n"
    first, second = parse_gpu_stats(said)
    assert (first["use"], first["memory_used"], first["power_w"]) == (0.87, 2**30, 251.3)
    assert (second["uuid"], second["use"], second["power_w"]) == ("GPU-2b", None, None)


def test_gpus_and_the_error_of_nvidia_smi_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    smi = tmp_path / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho 'GPU-1, NVIDIA L4, 23034, 550.54.15'\necho nonsense\n")
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    card = {"uuid": "GPU-1", "kind": "NVIDIA L4", "memory_gib": 22.5, "driver": "550.54.15"}
    assert gpus.query_gpus() == ([card], "")
    smi.write_text("#!/bin/sh\necho 'NVIDIA-SMI has failed: no driver'\nexit 9\n")
    assert gpus.query_gpus() == ([], "nvidia-smi says: NVIDIA-SMI has failed: no driver")
