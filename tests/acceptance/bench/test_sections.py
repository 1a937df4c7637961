"""Every section of `make bench` runs at a small size and measures all of its rows."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from bench.__main__ import SECTIONS
from bench.peers import ROOT
from scripts.chromium import find_chromium
from tests.conftest import NOT_INSTALLED

CACHE = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")  # holds the unpacked Chromium
NEEDS_BROWSER = {"web"}
ELSEWHERE = {"trainers", "clusters"}  # tests/trainers/test_bench.py, tests/clusters/kubernetes/test_bench.py


def run_quickly(section: str, home: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bench", "--quick", section],
        cwd=ROOT,
        env={**os.environ, "HOME": str(home), "XDG_CACHE_HOME": CACHE},
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )


@pytest.mark.parametrize("section", sorted(SECTIONS.keys() - ELSEWHERE))
@pytest.mark.extended
@pytest.mark.timeout(900)
def test_a_section_measures_all_its_rows(section: str, tmp_path: Path) -> None:
    if section in NEEDS_BROWSER and find_chromium() is None:
        pytest.skip(f"Chromium {NOT_INSTALLED}")
    done = run_quickly(section, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "not measured" not in done.stdout
    assert "a quick run judges no target" in done.stdout
