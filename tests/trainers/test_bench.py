"""The benchmark section that needs torch runs at a small size."""

from pathlib import Path

from tests.acceptance.bench.test_sections import run_quickly


def test_the_trainers_section_measures_all_its_rows(tmp_path: Path) -> None:
    done = run_quickly("trainers", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "checkpoint stalls in `torch-classifier`" in done.stdout
