from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from anygpu.cli.admin.simulate import simulate_command

PRICES = ("--on-demand-price", "3", "--spot-price", "1")


@pytest.fixture
def zone(tmp_path: Path) -> Path:
    path = tmp_path / "zone.json"
    path.write_text(json.dumps({"metadata": {"gap_seconds": 600}, "data": [1] * 100}))
    return path


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(simulate_command, [str(word) for word in words])


def test_the_distribution_is_shown_for_each_policy(zone: Path) -> None:
    shown = run("--trace", zone, "--work", "4h", "--deadline", "6h", *PRICES)
    assert shown.exit_code == 0
    rows = [line.split() for line in shown.output.splitlines()]
    assert [row[0] for row in rows] == ["POLICY", "on-demand", "uniform-progress", "anygpu"]
    assert rows[-1][1:5] == ["$4.10"] * 4


def test_work_and_deadline_come_from_the_job_file(zone: Path, tmp_path: Path) -> None:
    job = tmp_path / "job.yaml"
    job.write_text("script: a.py\nlimits: {deadline: 6h}\nplacement: {expected_duration: 4h}\n")
    found = json.loads(run(job, "--trace", zone, *PRICES, "--json").output)
    assert found["work_s"] == 4 * 3600
    assert found["deadline_s"] == pytest.approx(6 * 3600, abs=1)
    assert found["policies"]["anygpu"]["late"] == 0


def test_missing_times_are_reported(zone: Path) -> None:
    shown = run("--trace", zone, "--work", "4h", *PRICES)
    assert shown.exit_code == 2
    assert "Use --deadline, or limits.deadline" in shown.output


def test_an_impossible_deadline_is_rejected(zone: Path) -> None:
    shown = run("--trace", zone, "--work", "4h", "--deadline", "4h", *PRICES)
    assert shown.exit_code == 2
    assert "the training and one start take 4h06m, but the deadline is 4h00m after the start" in shown.output
