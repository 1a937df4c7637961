"""The benchmark section that needs torch runs at a small size."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SERVER_PYTHON = ROOT / ".venv" / "bin" / "python"  # `make test-trainers` sets up both environments


@pytest.mark.timeout(900)
def test_the_trainers_section_measures_all_its_rows(tmp_path: Path) -> None:
    done = subprocess.run(
        [SERVER_PYTHON, "-m", "bench", "--quick", "trainers"],
        cwd=ROOT,
        env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "time in which saving stops the training, `torch-classifier`" in done.stdout
