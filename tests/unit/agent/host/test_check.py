"""What a machine reports about itself."""

from pathlib import Path

import pytest

from anygpu.agent.host.check import check_host


def test_a_machine_without_gpus_reports_its_cpus_and_the_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    facts = check_host(str(tmp_path / ".anygpu"), cpu_count=3)
    assert (facts["cpus"], facts["free_cpus"]) == (3, 3)
    assert (facts["gpus"], facts["gpu_problem"]) == (
        [],
        "nvidia-smi is not installed",
    )
    assert facts["memory_gib"] > 0
