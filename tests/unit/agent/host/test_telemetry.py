"""Measurements of the machine."""

from pathlib import Path

import pytest

from anygpu.agent.host import telemetry


@pytest.mark.parametrize(
    ("before", "after", "fraction"),
    [((0, 0), (50, 100), 0.5), ((10, 100), (10, 200), 0.0), ((0, 0), (0, 0), 0.0), ((0, 0), (9, 3), 1.0)],
)
def test_the_cpu_fraction_is_between_two_samples(
    before: tuple[float, float], after: tuple[float, float], fraction: float
) -> None:
    assert telemetry.cpu_fraction(before, after) == fraction


def test_memory_and_disk_are_measured(tmp_path: Path) -> None:
    memory, disk = telemetry.memory_usage(), telemetry.disk_usage(str(tmp_path))
    assert 0 <= memory["used"] <= memory["total"]
    assert 0 <= disk["free"] <= disk["total"]


def test_a_machine_without_nvidia_smi_reports_no_gpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    reports: list[dict[str, object]] = []
    sampler = telemetry.TelemetrySampler(10.0, str(tmp_path), reports.append)
    assert sampler.poll(1000.0) == 1010.0
    assert reports[0]["gpus"] == []
    sampler.close()
