"""The section of `make bench` about clusters runs at a small size and measures all of its rows."""

from pathlib import Path

from scripts.clusters.kubernetes import ControlPlane
from tests.acceptance.bench.test_sections import run_quickly


def test_the_section_measures_all_its_rows(control_plane: ControlPlane, tmp_path: Path) -> None:
    done = run_quickly("clusters", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "not measured" not in done.stdout
    assert "a quick run judges no target" in done.stdout
